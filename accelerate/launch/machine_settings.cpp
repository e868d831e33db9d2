// Reads how many machines take part, which one this is, and how they meet.
#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/settings.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kMostMachines = 65'536;

class Machines {
 public:
  Machines(const LaunchRequest& request, LaunchOptions& settings)
      : request_(request), settings_(settings) {}

  void run() {
    read_num_machines();
    read_rendezvous();
    settings_.max_restarts =
        ranged(request_, settings_, "max_restarts", {0, 1'000'000}).value_or(0);
    read_machine_rank();
    if (is_one_machine()) return;
    if (text("main_process_ip").empty()) {
      throw ConfigError(where("num_machines") + " is '" + text("num_machines") +
                        "', but nobody says where they meet. Give all of them the address of "
                        "machine 0: --main_process_ip ADDRESS.");
    }
    if (parse_int(text("main_process_port")) == 0) {
      throw ConfigError(where("main_process_port") +
                        " is '0', a free port, which other machines cannot know. Give all "
                        "machines the same port, from 1 to 65535.");
    }
  }

 private:
  [[nodiscard]] bool is_given(const std::string& flag) const {
    return request_.flags.contains(flag);
  }
  [[nodiscard]] bool is_one_machine() const { return settings_.num_machines == 1; }
  [[nodiscard]] std::string text(const std::string& name) const { return settings_.text(name); }
  [[nodiscard]] std::string where(const std::string& name) const {
    return where_said(request_, settings_, name);
  }
  void tell_left_over(const std::string& name) {
    settings_.warnings.push_back(where(name) + " has no effect on one machine.");
  }

  // "2", or "2:4" for machines that come and go.
  void read_num_machines() {
    const auto words = split(text("num_machines").empty() ? "1" : text("num_machines"), ':');
    const auto fewest = parse_int(words.front()), most = parse_int(words.back());
    if (!fewest || !most || *fewest < 1 || *most < *fewest || *most > kMostMachines) {
      throw ConfigError(where("num_machines") + " is '" + text("num_machines") +
                        "'; allowed is a number from 1 to " + std::to_string(kMostMachines) +
                        ", or two such as 2:4, the smaller first.");
    }
    settings_.fewest_machines = static_cast<int>(*fewest);
    settings_.num_machines = static_cast<int>(*most);
  }

  void read_rendezvous() {
    read_rdzv_conf();
    const std::string backend = lower(text("rdzv_backend"));
    const bool is_known = backend == "static" || backend == "c10d";
    if (is_one_machine()) {
      if (is_known || backend.empty()) return;
      if (!is_given("rdzv_backend")) return tell_left_over("rdzv_backend");
    }
    if (!is_known) {
      throw ConfigError(where("rdzv_backend") + " is '" + text("rdzv_backend") +
                        "'; allowed are static and c10d. c10d needs no server of its own.");
    }
    settings_.machines_come_and_go = backend == "c10d";
    if (settings_.fewest_machines != settings_.num_machines && backend != "c10d") {
      throw ConfigError(where("num_machines") + " is '" + text("num_machines") +
                        "', a range, but under the static rendezvous all machines are there from "
                        "the beginning. Give one number, or --rdzv_backend c10d.");
    }
  }

  void read_rdzv_conf() {
    if (text("rdzv_conf").empty()) return;
    if (is_one_machine()) tell_left_over("rdzv_conf");
    for (const auto& pair : split(text("rdzv_conf"), ',')) {
      const auto equals = pair.find('=');
      const std::string key(trim(pair.substr(0, equals)));
      const auto seconds = parse_double(equals == std::string::npos ? "" : pair.substr(equals + 1));
      const bool is_timeout = key == "timeout" || key == "join_timeout";
      const auto without_effect = {"read_timeout",
                                   "close_timeout",
                                   "heartbeat_timeout",
                                   "keep_alive_interval",
                                   "keep_alive_max_attempt",
                                   "is_host",
                                   "rank",
                                   "store_type"};
      if (std::ranges::find(without_effect, key) != without_effect.end()) {
        settings_.warnings.push_back(where("rdzv_conf") + " has '" + key +
                                     "', which has no effect here.");
        continue;
      }
      if ((!is_timeout && key != "last_call_timeout") || !seconds || *seconds < 0 ||
          *seconds > 1e7) {
        throw ConfigError(where("rdzv_conf") + " has '" + pair +
                          "'; allowed are timeout=SECONDS, join_timeout=SECONDS and "
                          "last_call_timeout=SECONDS, separated by commas.");
      }
      const auto time = std::chrono::milliseconds(static_cast<std::int64_t>(*seconds * 1000));
      (is_timeout ? settings_.join_timeout : settings_.last_call_timeout) = time;
    }
  }

  void read_machine_rank() {
    const std::int64_t last = settings_.num_machines - 1;
    const auto rank = parse_int(text("machine_rank")).value_or(0);
    if (is_one_machine() && rank != 0 && !is_given("machine_rank"))
      return tell_left_over("machine_rank");
    if (rank > last) {
      throw ConfigError(where("machine_rank") + " is '" + text("machine_rank") + "', and " +
                        (is_one_machine()
                             ? "there is one machine: allowed is 0. Say with "
                               "--num_machines how many take part."
                             : "there are " + std::to_string(last + 1) +
                                   " machines: allowed are 0 to " + std::to_string(last) + "."));
    }
    settings_.machine_rank = ranged(request_, settings_, "machine_rank", {0, last}).value_or(0);
  }

  const LaunchRequest& request_;
  LaunchOptions& settings_;
};

}  // namespace

void read_machines(const LaunchRequest& request, LaunchOptions& settings) {
  Machines(request, settings).run();
}

}  // namespace accelerate::detail
