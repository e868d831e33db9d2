// Launchers of several machines: on loopback they are processes, in network namespaces they are hosts.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/port.h"
#include "tests/launch/support.h"
#include "tests/support/network_namespaces.h"
#include "tests/support/support.h"

namespace accelerate::testing {

class Machines : public ::testing::Test {
 public:
  using Words = std::vector<std::string>;

 protected:
  void SetUp() override {
    if (!std::filesystem::exists(accelerate_program())) GTEST_SKIP() << "built without the command";
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes_tagged(tag_) == 0; }, std::chrono::seconds(20)));
  }

  // Starts the launcher of machine `rank`: `before`, its flags, and probes that do `words`.
  Background& start(int rank, Words flags, Words words, Words before = {}) {
    Words argv = std::move(before);
    for (const auto& word :
         Words{accelerate_program(), "launch", "--cpu", "--machine_rank", std::to_string(rank),
               "--main_process_ip", address_, "--main_process_port", std::to_string(port_)})
      argv.push_back(word);
    if (std::ranges::find(flags, "--num_machines") == flags.end())
      flags.insert(flags.end(), {"--num_machines", "2"});
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.push_back(program_);
    argv.push_back(tag_);
    argv.insert(argv.end(), words.begin(), words.end());
    launchers_.push_back(
        std::make_unique<Background>(argv, output(static_cast<int>(launchers_.size()))));
    return *launchers_.back();
  }

  // Waits until a launcher holds the store: of those that come and go, the first one does.
  [[nodiscard]] bool is_hosted() const {
    return eventually([&] { return !port_is_free("127.0.0.1", port_); }, std::chrono::seconds(20));
  }

  // What launcher `number`, in the order of starts, wrote to standard error.
  [[nodiscard]] std::string errors(int number) const { return text_of(output(number) + ".err"); }
  [[nodiscard]] std::string output(int number) const {
    return folder_.path() / ("out" + std::to_string(number));
  }
  [[nodiscard]] std::string marks() {
    std::filesystem::create_directory(folder_.path() / "marks");
    return folder_.path() / "marks";
  }
  [[nodiscard]] std::string variable(int rank, const std::string& name) {
    const std::string all = text_of(marks() + "/" + std::to_string(rank));
    const std::string start = std::string(1, '\0') + name + "=";
    const auto begin = all.find(start);
    if (begin == std::string::npos) return "none";
    const auto value = begin + start.size();
    return all.substr(value, all.find('\0', value) - value);
  }

  const std::string tag_ = unique_tag();
  std::string program_ = probe_program();
  std::string address_ = "127.0.0.1";
  int port_ = free_port("127.0.0.1");
  TemporaryFolder folder_;
  std::vector<std::unique_ptr<Background>> launchers_;
};

// Hosts with addresses of their own, and cables that can be cut.
class Hosts : public Machines {
 protected:
  void SetUp() override {
    Machines::SetUp();
    if (const auto why = NetworkNamespaces::why_not(); !why.empty()) GTEST_SKIP() << why;
    hosts_.emplace(2);
    address_ = NetworkNamespaces::address(0);
    port_ = 29500;
  }

  void start_both(const Words& words) {
    for (const int host : {0, 1}) start(host, {"--num_processes", "2"}, words, hosts_->on(host));
  }

  std::optional<NetworkNamespaces> hosts_;
};

}  // namespace accelerate::testing
