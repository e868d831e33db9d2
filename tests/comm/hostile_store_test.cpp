// What strangers do to the store's port of a job ends the job with a typed error at worst.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <torch/torch.h>
#include <unistd.h>

#include <future>
#include <iostream>
#include <latch>
#include <string>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_communicator.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/rendezvous.h"
#include "accelerate/comm/sealed_store.h"
#include "accelerate/comm/shared_memory/control_block.h"
#include "tests/comm/shared_memory/meetings.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::ProcessesOptions;
using testing::run_processes;

// A client that asks the store 2,000 questions and is gone, by a reset, amid its answers.
void ask_and_vanish(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  constexpr std::uint32_t kMagic = 0x3C85F7CE;
  std::string bytes(1, '\0');
  bytes.append(reinterpret_cast<const char*>(&kMagic), sizeof kMagic);
  bytes.append(2'000, '\7');
  (void)send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  pollfd first_answer{fd, POLLIN, 0};
  poll(&first_answer, 1, /*timeout=*/20);
  const linger at_once{1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close(fd);
}

RANK_MAIN(meet_beside_one_that_vanishes) {
  const auto options = rendezvous_options_from_env();
  const auto comm = rendezvous(options);
  for (int i = 0; comm->rank() == 1 && i < 40; ++i) ask_and_vanish(options.master_port);
  comm->barrier();
  if (comm->rank() == 0) TORCH_WARN("kept");
  std::cout << "alive";
  comm->barrier();
  return 0;
}

TEST(HostileStore, AClientThatVanishesNeitherEndsTheHostNorFillsItsLog) {
  for (const auto& rank : run_processes(2, "meet_beside_one_that_vanishes")) {
    EXPECT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_EQ(rank.out, "alive");
    EXPECT_EQ(rank.err.find("TCPStore"), std::string::npos) << rank.err.substr(0, 2'000);
    EXPECT_EQ(rank.err.find("kept") != std::string::npos, rank.rank == 0) << rank.err;
  }
}

const std::string kTokens[] = {"0123456789abcdef0123456789abcdef",
                               "0123456789abcdef0123456789abcdee"};

// Rank 1 is played by a stranger, who knows where everything is kept, and TEST_STRANGER's token.
RANK_MAIN(meet_a_stranger) {
  auto options = rendezvous_options_from_env();
  options.timeout = 10s;
  if (options.rank == 0) {
    try {
      const auto comm = rendezvous(options);
    } catch (const CommError& error) {
      std::cout << error.what();
      return 42;
    }
    return 0;
  }
  c10d::TCPStoreOptions tcp;
  tcp.port = static_cast<std::uint16_t>(options.master_port);
  tcp.waitWorkers = false;
  const auto open = c10::make_intrusive<c10d::TCPStore>(options.master_addr, tcp);
  c10::intrusive_ptr<c10d::Store> store = open;
  if (const auto token = env("TEST_STRANGER")) {
    store = c10::make_intrusive<detail::SealedStore>(open, *key_from_digits(*token));
  }
  const std::string selection = "accelerate.cpp/attempt0/meeting0/selection/";
  const std::string terms = "1\nhost\nmachine\n'\x1b[31mpoison'";
  store->set(selection + "accelerate/joined/1",
             std::vector<std::uint8_t>(terms.begin(), terms.end()));
  return 0;
}

// A stranger who knows the token shows that the others would have got somewhere.
TEST(HostileStore, WhoDoesNotKnowTheTokenIsNotTakenForARank) {
  struct Row {
    const char* stranger;
    std::string token;
    std::string says;
  };
  const std::string refusal = "was not written by a rank of this job";
  for (const Row& row :
       {Row{"of no token", "", refusal}, Row{"of another token", kTokens[1], refusal},
        Row{"of the token", kTokens[0], "rank 1 asks for the backend '?[31mpoison'"}}) {
    ProcessesOptions options{.env = {{"ACCELERATE_JOB_TOKEN", kTokens[0]}}};
    if (!row.token.empty()) options.env["TEST_STRANGER"] = row.token;
    const auto rank = run_processes(2, "meet_a_stranger", options).front();
    EXPECT_EQ(rank.exit_code, 42) << row.stranger << rank.err;
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, row.says, rank.out) << row.stranger;
  }
}

// Ranks that were told a token meet, and it is nowhere in their store.
RANK_MAIN(meet_and_search_the_store) {
  const auto options = rendezvous_options_from_env();
  const auto comm = rendezvous(options);
  comm->barrier();
  c10d::TCPStoreOptions tcp;
  tcp.port = static_cast<std::uint16_t>(options.master_port);
  tcp.waitWorkers = false;
  c10d::TCPStore store(options.master_addr, tcp);
  const std::string token(options.job_token.begin(), options.job_token.end());
  int searched = 0;
  for (const auto& stored : store.listKeys()) {
    const auto key = stored.substr(stored.find_first_not_of('/'));  // c10d adds strokes.
    if (!store.check({key})) continue;
    const auto value = store.get(key);
    const std::string all = key + std::string(value.begin(), value.end());
    if (all.find(token) != std::string::npos) return 1;
    if (all.find(*env("ACCELERATE_JOB_TOKEN")) != std::string::npos) return 1;
    ++searched;
  }
  std::cout << (searched > 4 ? "searched" : "found no keys");
  comm->barrier();
  return 0;
}

TEST(HostileStore, TheTokenIsNotInIt) {
  for (const std::string backend : {"gloo", "shared_memory"}) {
    const ProcessesOptions options{
        .env = {{"ACCELERATE_JOB_TOKEN", kTokens[0]}, {"ACCELERATE_COMM", backend}}};
    for (const auto& rank : run_processes(2, "meet_and_search_the_store", options)) {
      EXPECT_EQ(rank.exit_code, 0) << rank.err;
      EXPECT_EQ(rank.out, "searched");
    }
  }
}

// What a rank that makes a group over shared memory says of one that told `poison` of its memory.
std::string said_of(const std::string& poison, int poisoned,
                    const std::shared_ptr<detail::LocalPeers>& peers) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(3s);
  const auto set = [&](const std::string& key, const std::string& value) {
    store->set(key + std::to_string(poisoned),
               std::vector<std::uint8_t>(value.begin(), value.end()));
  };
  std::future<void> host;
  if (poisoned == 0) {
    host = std::async(std::launch::async, [&] {
      detail::GroupDiagnosis(store, 0, 2, 3s).wait_for_everyone_to_join(Deadline(3s));
    });
  } else {
    set("accelerate/joined/", "1");
  }
  set("shared_memory/", poison);
  return testing::message_of<CommError>(
      [&] { (void)make_shared_memory_communicator(store, peers->index(), 2, 3s, peers); });
}

// Numbers that are no rank's, types that do not fit, memory that holds no control block.
TEST(HostileStore, WhatItSaysOfMemoryIsNotBelieved) {
  std::vector<std::string> of_a_peer;
  for (const char* index : {"1000000", "-5", "2", "0", "1.0", "\"1\"", "null", "[]",
                            "18446744073709551615", "99999999999999999999999"}) {
    of_a_peer.push_back(std::string(R"({"cores":[0],"index":)") + index + "}");
  }
  for (const char* text : {"", "x", "[]", "5", "{}", R"({"index":1})", R"({"error":5})",
                           R"({"index":1,"cores":{}})", R"({"index":1,"cores":[-1]})",
                           R"({"index":1,"cores":["a"]})", R"({"index":1,"cores":[4294967296]})"}) {
    of_a_peer.emplace_back(text);
  }
  const auto bytes = detail::ControlBlock::bytes_for(2);
  std::promise<detail::SharedExtent> elsewhere;
  std::latch over(1);
  testing::meet_as_threads(2, [&](int rank, const detail::Hosts& hosts) {
    detail::SharedArena::Block memory;
    if (rank == 0) {
      memory = hosts.peers->arena()->allocate(bytes);
      elsewhere.set_value(memory.extent());
    }
    for (const auto& poison : of_a_peer) {
      if (rank == 1) break;
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, "an invalid memory note for rank 1",
                          said_of(poison, 1, hosts.peers))
          << poison;
    }
    if (rank == 0) return over.wait();
    const auto extent = elsewhere.get_future().get();
    const auto block = [&](std::uint64_t offset, std::uint64_t size) {
      return R"({"index":0,"cores":[0],"block":[)" + std::to_string(extent.segment_offset) + "," +
             std::to_string(extent.segment_bytes) + "," + std::to_string(offset) + "," +
             std::to_string(size) + "]}";
    };
    for (const auto& [poison, says] : std::vector<std::pair<std::string, std::string>>{
             {R"({"index":0,"cores":[0]})", "an invalid memory note for rank 0"},
             {R"({"index":0,"cores":[0],"block":[0,1,2]})", "an invalid memory note for rank 0"},
             {R"({"index":0,"cores":[0],"block":[0,1,2,"a"]})",
              "an invalid memory note for rank 0"},
             {R"({"index":0,"cores":[0],"block":[0,1,2,-4]})", "an invalid memory note for rank 0"},
             {block(extent.offset, 64), "an invalid memory note for rank 0"},
             {block(extent.offset + 1, bytes), "an invalid memory note for rank 0"},
             {block(std::uint64_t{1} << 60, bytes), "there is no shared memory of"},
             {block(extent.offset, bytes), "where there is no control block"}}) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, said_of(poison, 0, hosts.peers)) << poison;
    }
    over.count_down();
  });
}

}  // namespace
}  // namespace accelerate
