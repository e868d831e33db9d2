// The watches of many ranks, each a thread, over a store in memory: how many queries each sends when
// a job hangs. docs/costs.md has the table;
// ACCELERATE_WRITE_PAGES=1 build/dev/tests/test_comm --gtest_filter='HangScale.*' writes it.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "accelerate/base/logger.h"
#include "accelerate/comm/hang_watch.h"
#include "accelerate/comm/sealed_store.h"
#include "accelerate/comm/sentence.h"
#include "tests/comm/counting_store.h"
#include "tests/support/counted_rows.h"
#include "tests/support/support.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;
using testing::CountingStore;

struct WatchedRank {
  c10::intrusive_ptr<CountingStore> store;
  std::unique_ptr<HangWatch> watch;
  std::vector<FlightTicket> call = {};
  int before = 0;  // Queries until the job hung.
};

struct HangQueries {
  int before = 0;        // Of any other rank.
  int most = 0;          // Of any other rank, for the report.
  bool is_late = false;  // Whether another rank may have taken the report over.
};

// A job of which every rank waits in its second collective.
HangQueries hang(int size, const std::string& folder) {
  std::atomic<int> reports = 0;
  set_log_sink([&](const LogRecord& record) {
    if (std::string(record.text).find("nothing has gone on") != std::string::npos) ++reports;
  });
  const auto shared = c10::make_intrusive<c10d::HashStore>();
  std::vector<WatchedRank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const HangOptions options{.limit = 300ms,
                              .interval = 50ms,
                              .timeout = 600s,
                              .prefix = folder + "/rank_",
                              .slots = 16};
    ranks.push_back({c10::make_intrusive<CountingStore>(shared),
                     std::make_unique<HangWatch>(rank, size, options)});
    ranks.back().watch->introduce(
        {c10::make_intrusive<SealedStore>(ranks.back().store, ChecksumKey{}), "127.0.0.1", 1});
  }
  for (WatchedRank& rank : ranks) {
    rank.watch->start();
    rank.before = rank.store->queries();
    const auto& recorder = rank.watch->recorder();
    (void)recorder->begin(0, Sentence(FlightKind::meeting), 1);
    rank.call.push_back(recorder->begin(0, Sentence(FlightKind::barrier), 2));
    rank.call.back().waits();
  }
  const auto begin = std::chrono::steady_clock::now(), end = begin + 60s;
  while (reports == 0 && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(10ms);
  for (WatchedRank& rank : ranks) rank.watch.reset();
  set_log_sink({});
  EXPECT_EQ(reports, 1);
  HangQueries queries;
  queries.is_late = std::chrono::steady_clock::now() - begin > 5s;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    queries.before = ranks[rank].before;
    queries.most = std::max(queries.most, ranks[rank].store->queries() - ranks[rank].before);
  }
  return queries;
}

HangQueries hang_in_time(int size, const std::string& folder) {
  HangQueries queries = hang(size, folder);
  for (int tries = 1; tries < 5 && queries.is_late; ++tries) queries = hang(size, folder);
  return queries;
}

TEST(HangScale, AReportTakesARankAFewQueriesInAJobOfAnySize) {
  const testing::TemporaryFolder folder;
  const HangQueries few = hang_in_time(4, folder.path()), many = hang_in_time(32, folder.path());
  EXPECT_EQ(few.before, 2);
  EXPECT_EQ(many.before, 2);
  // Which rank asks first, and who is told of it when, is left to chance.
  EXPECT_LE(few.most, 6);
  EXPECT_LE(many.most, 6);
}

}  // namespace
}  // namespace accelerate::detail
