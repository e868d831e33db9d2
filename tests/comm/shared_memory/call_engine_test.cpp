// The engine of shared-memory collectives without processes. Compiled without LibTorch's library,
// so that ThreadSanitizer sees all of it (test_shared_memory_tsan).
#include "accelerate/comm/shared_memory/call_engine.h"

#include <gtest/gtest.h>

#include <future>
#include <random>
#include <thread>

#include "accelerate/base/error.h"
#include "tests/comm/shared_memory/call_engine_ranks.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLong = 60s;

std::vector<Kind> mixture(unsigned seed, int ranks, int calls) {
  std::mt19937 random(seed);
  const auto below = [&](int limit) { return static_cast<int>(random() % unsigned(limit)); };
  std::vector<Kind> kinds;
  for (int call = 0; call < calls; ++call) {
    Kind kind;
    kind.kind = static_cast<CallKind>(below(9));
    const bool has_root = kind.kind == CallKind::reduce || kind.kind == CallKind::broadcast ||
                          kind.kind == CallKind::gather || kind.kind == CallKind::scatter;
    kind.root = has_root ? below(ranks) : -1;
    const int largest[] = {1, 64, 4'096, 20'000, 180'000};
    kind.elements = 1 + static_cast<std::size_t>(below(largest[below(5)]));
    kind.in_arena = below(2) == 0;
    kinds.push_back(kind);
  }
  return kinds;
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const CommError& error) {
    return error.what();
  }
  return "";
}

void wait_until_done(const Pending& call) {
  while (!call.is_done()) std::this_thread::sleep_for(1ms);
}

// --- tests ---------------------------------------------------------------------------------------
struct Crowd {
  int ranks;
  std::uint32_t first;  ///< Where counters begin.
  std::chrono::nanoseconds spin;
};
class SharedMemoryEngineMixture : public ::testing::TestWithParam<Crowd> {};

// Of each rank one thread makes all calls; three wait for them, each in its own way.
TEST_P(SharedMemoryEngineMixture, ManyCallsInFlightGiveWhatEachGivesAlone) {
  const auto [size, first, spin] = GetParam();
  constexpr int kCalls = 24;
  Ranks ranks(size, first, spin);
  const auto kinds = mixture(static_cast<unsigned>(size) + first, size, kCalls);
  std::vector<std::vector<std::unique_ptr<Job>>> jobs(static_cast<std::size_t>(size));
  for (int rank = 0; rank < size; ++rank) {
    for (int call = 0; call < kCalls; ++call) {
      jobs[std::size_t(rank)].push_back(
          std::make_unique<Job>(kinds[std::size_t(call)], ranks.seat(rank), call));
    }
  }
  ranks.each([&](int rank) {
    const auto& mine = jobs[std::size_t(rank)];
    Engine& engine = ranks[rank];
    for (const auto& job : mine) engine.start(job->operation);
    std::thread waits([&] {
      for (std::size_t i = 0; i < kCalls; i += 3)
        EXPECT_FALSE(engine.wait(*mine[i]->operation, kLong));
    });
    std::thread polls([&] {
      for (std::size_t i = 1; i < kCalls; i += 3) {
        while (!engine.poll(*mine[i]->operation)) std::this_thread::yield();
      }
    });
    for (std::size_t i = 2; i < kCalls; i += 3) {
      std::promise<void> done;
      engine.when_done(*mine[i]->operation, [&done] { done.set_value(); });
      done.get_future().get();
    }
    waits.join();
    polls.join();
  });
  for (const auto& of_rank : jobs) {
    for (const auto& job : of_rank) job->check();
  }
}

INSTANTIATE_TEST_SUITE_P(Crowds, SharedMemoryEngineMixture,
                         ::testing::Values(Crowd{1, 0, 0ns}, Crowd{2, 0, 0ns}, Crowd{2, 0, 50us},
                                           Crowd{3, 0, 0ns}, Crowd{5, 0, 0ns},
                                           Crowd{2, 0xfffffff0U, 0ns}, Crowd{3, 0xfffffffdU, 0ns}));

TEST(SharedMemoryEngine, ServesARankThatOnlyStartsItsCall) {
  Ranks ranks(3);
  std::vector<std::unique_ptr<Job>> jobs;
  for (int rank = 0; rank < 3; ++rank) {
    jobs.push_back(std::make_unique<Job>(Kind{.elements = 1'000'000}, ranks.seat(rank), 0));
  }
  ranks[0].start(jobs[0]->operation);
  std::thread other([&] {
    ranks[1].start(jobs[1]->operation);
    EXPECT_FALSE(ranks[1].wait(*jobs[1]->operation, kLong));
  });
  ranks[2].start(jobs[2]->operation);
  EXPECT_FALSE(ranks[2].wait(*jobs[2]->operation, kLong));
  other.join();
  wait_until_done(*jobs[0]->operation);
  for (const auto& job : jobs) job->check();
}

TEST(SharedMemoryEngine, LetsARootBeAheadByAsManyCallsAsThereAreSlots) {
  Ranks ranks(2);
  std::vector<std::unique_ptr<Job>> given, taken;
  for (int call = 0; call < 12; ++call) {
    const Kind kind{CallKind::broadcast, 0, 100};
    given.push_back(std::make_unique<Job>(kind, ranks.seat(0), call));
    taken.push_back(std::make_unique<Job>(kind, ranks.seat(1), call));
    ranks[0].start(given.back()->operation);
  }
  for (std::size_t call = 0; call < given.size(); ++call) {
    EXPECT_EQ(given[call]->operation->is_done(), call < kSlots) << call;
  }
  for (const auto& job : taken) {
    ranks[1].start(job->operation);
    EXPECT_FALSE(ranks[1].wait(*job->operation, kLong));
    job->check();
  }
  for (const auto& job : given) wait_until_done(*job->operation);
}

TEST(SharedMemoryEngine, FollowersMayMakeTheNextCall) {
  constexpr int kCalls = 40;
  Ranks ranks(2);
  ranks.each([&](int rank) {
    std::vector<std::unique_ptr<Job>> jobs;
    for (int call = 0; call < kCalls; ++call) {
      jobs.push_back(std::make_unique<Job>(Kind{.elements = 64}, ranks.seat(rank), call));
    }
    std::promise<void> last;
    std::function<void(std::size_t)> go_on = [&](std::size_t next) {
      if (next == kCalls) return last.set_value();
      ranks[rank].start(jobs[next]->operation);
      ranks[rank].when_done(*jobs[next]->operation, [&, next] { go_on(next + 1); });
    };
    go_on(0);
    last.get_future().get();
    for (const auto& job : jobs) job->check();
  });
}

TEST(SharedMemoryEngine, RunsEveryFollowerOfACall) {
  Ranks ranks(2);
  Job mine(Kind{}, ranks.seat(0), 0), theirs(Kind{}, ranks.seat(1), 0);
  ranks[0].start(mine.operation);
  std::promise<void> first, second, late;
  ranks[0].when_done(*mine.operation, [&] { first.set_value(); });
  ranks[0].when_done(*mine.operation, [&] { second.set_value(); });
  ranks[1].start(theirs.operation);
  first.get_future().get();
  second.get_future().get();
  ranks[0].when_done(*mine.operation, [&] { late.set_value(); });
  late.get_future().get();
}

// More than there are posts, of both kinds, to receivers that look for them meanwhile.
class SharedMemoryEngineMessages : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(SharedMemoryEngineMessages, ComeInTheOrderInWhichTheyWereSent) {
  constexpr int kMessages = 90;
  const auto elements = [](int i) { return std::size_t(i % 7 == 0 ? 40'000 : 1 + i); };
  const auto first = [](int to, int i) { return to * 1'000'000 + i * 1'000; };
  Ranks ranks(3, GetParam());
  ranks.each([&](int rank) {
    std::vector<std::unique_ptr<Mail>> mails;
    for (int i = 0; i < kMessages; ++i) {
      for (int to = rank == 0 ? 1 : rank; to <= (rank == 0 ? 2 : rank); ++to) {
        const auto way = rank == 0 ? Message::Way::send : Message::Way::receive;
        mails.push_back(std::make_unique<Mail>(way, rank == 0 ? to : 0, i % 2, elements(i),
                                               first(to, i), i % 3 == 0));
        ranks[rank].start(mails.back()->message);
      }
    }
    for (const auto& mail : mails) EXPECT_FALSE(ranks[rank].wait(*mail->message, kLong));
    for (int i = 0; rank != 0 && i < kMessages; ++i) mails[std::size_t(i)]->check(first(rank, i));
  });
}
INSTANTIATE_TEST_SUITE_P(Counters, SharedMemoryEngineMessages, ::testing::Values(0, 0xffffffe0U));

TEST(SharedMemoryEngine, ServesMessagesBesideACollectiveThatWaits) {
  Ranks ranks(2);
  Job mine(Kind{}, ranks.seat(0), 0), theirs(Kind{}, ranks.seat(1), 0);
  Mail sent(Message::Way::send, 1, 3, 1'000, 5), received(Message::Way::receive, 0, 3, 1'000, 0);
  ranks[0].start(mine.operation);
  ranks[0].start(sent.message);
  ranks[1].start(received.message);
  EXPECT_FALSE(ranks[1].wait(*received.message, kLong));
  received.check(5);
  EXPECT_FALSE(mine.operation->is_done());
  ranks[1].start(theirs.operation);
  EXPECT_FALSE(ranks[1].wait(*theirs.operation, kLong));
  EXPECT_FALSE(ranks[0].wait(*mine.operation, kLong));
  mine.check();
}

// Waits that sleep wake ten times a second; 1,000 pieces would take 25 s with those.
TEST(SharedMemoryEngine, ServesAMessageThatWasStartedBesideASleepingWait) {
  Ranks ranks(2);
  Job mine(Kind{}, ranks.seat(0), 0), theirs(Kind{}, ranks.seat(1), 0);
  ranks[0].start(mine.operation);
  std::thread waits([&] { EXPECT_FALSE(ranks[0].wait(*mine.operation, kLong)); });
  std::this_thread::sleep_for(20ms);  // Now it sleeps.
  const std::size_t elements = 1'000 * ranks.mail_slot_bytes() / sizeof(std::int32_t);
  Mail sent(Message::Way::send, 1, 3, elements, 5),
      received(Message::Way::receive, 0, 3, elements, 0);
  ranks[0].start(sent.message);
  ranks[1].start(received.message);
  EXPECT_FALSE(ranks[1].wait(*received.message, kLong));
  received.check(5);
  ranks[1].start(theirs.operation);
  waits.join();
}

TEST(SharedMemoryEngine, NamesTheRankThatKeepsAPostWhenAllAreInUse) {
  Ranks ranks(3);
  std::vector<std::unique_ptr<Mail>> mails;
  for (std::size_t i = 0; i <= kPosts; ++i) {
    mails.push_back(std::make_unique<Mail>(Message::Way::send, i < kPosts ? 2 : 1, 0, 1, 0));
    ranks[0].start(mails.back()->message);
  }
  EXPECT_EQ(ranks[0].wait(*mails.back()->message, 1ms), 2);
}

TEST(SharedMemoryEngine, WaitsNoLongerThanItIsTold) {
  Ranks ranks(2);
  Job job(Kind{}, ranks.seat(0), 0);
  ranks[0].start(job.operation);
  EXPECT_EQ(ranks[0].wait(*job.operation, 1ms), 1);
  Job other(Kind{}, ranks.seat(1), 0);
  ranks[1].start(other.operation);
  EXPECT_FALSE(ranks[1].wait(*other.operation, std::chrono::milliseconds::max()));
  EXPECT_FALSE(ranks[0].wait(*job.operation, kLong));
}

TEST(SharedMemoryEngine, AnAbortEndsTheWaitsOfAllThreadsAndRanks) {
  Ranks ranks(2);
  Job first(Kind{}, ranks.seat(0), 0), second(Kind{}, ranks.seat(0), 1);
  Mail mail(Message::Way::receive, 0, 0, 1, 0);
  ranks[0].start(first.operation);
  ranks[0].start(second.operation);
  ranks[1].start(mail.message);
  std::promise<void> followed;
  ranks[0].when_done(*second.operation, [&] { followed.set_value(); });
  std::vector<std::string> errors(3);
  std::thread one([&] { errors[0] = error_of([&] { ranks[0].wait(*first.operation, kLong); }); });
  std::thread two([&] { errors[1] = error_of([&] { ranks[0].wait(*second.operation, kLong); }); });
  std::thread peer([&] { errors[2] = error_of([&] { ranks[1].wait(*mail.message, kLong); }); });
  ranks[0].abort("it has had enough");
  for (auto* thread : {&one, &two, &peer}) thread->join();
  followed.get_future().get();
  EXPECT_EQ(errors[0], "the group was aborted");
  EXPECT_EQ(errors[1], "the group was aborted");
  EXPECT_EQ(errors[2], "rank 0 gave up: it has had enough");
  Job late(Kind{}, ranks.seat(1), 0);
  EXPECT_EQ(error_of([&] { ranks[1].start(late.operation); }), errors[2]);
}

TEST(SharedMemoryEngine, ShowsBothCallsWhenRanksCallDifferentOnes) {
  Ranks ranks(2);
  std::vector<std::string> errors(2);
  ranks.each([&](int rank) {
    Job job(Kind{rank == 0 ? CallKind::all_reduce : CallKind::all_gather, -1, 8}, ranks.seat(rank),
            0);
    errors[std::size_t(rank)] = error_of([&] {
      ranks[rank].start(job.operation);
      ranks[rank].wait(*job.operation, kLong);
    });
  });
  for (const auto& error : errors) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "all_reduce(sum) of 8 elements of Int", error);
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "all_gather of 8 elements of Int", error);
  }
}

TEST(SharedMemoryEngine, ARankThatLeftAfterItsPartIsNotMissed) {
  Ranks ranks(2);
  Job given(Kind{CallKind::broadcast, 0, 10}, ranks.seat(0), 0);
  ranks[0].start(given.operation);
  EXPECT_TRUE(given.operation->is_done());
  ranks.end(0);
  Job taken(Kind{CallKind::broadcast, 0, 10}, ranks.seat(1), 0);
  ranks[1].start(taken.operation);
  EXPECT_FALSE(ranks[1].wait(*taken.operation, kLong));
  taken.check();
  Job missed(Kind{CallKind::broadcast, 0, 10}, ranks.seat(1), 1);
  ranks[1].start(missed.operation);
  EXPECT_EQ(error_of([&] { ranks[1].wait(*missed.operation, kLong); }),
            "rank 0 had left the group with a clean exit");
}

TEST(SharedMemoryEngine, CanEndInEveryState) {
  enum class State { fresh, started, mailed, followed, finished, aborted };
  for (const State state : {State::fresh, State::started, State::mailed, State::followed,
                            State::finished, State::aborted}) {
    Job mine(Kind{}, Seat{0, 2, 4096}, 0), theirs(Kind{}, Seat{1, 2, 4096}, 0);
    Mail mail(Message::Way::send, 1, 0, 1, 0);
    bool followed = false;
    {
      Ranks ranks(2);
      if (state == State::mailed) ranks[0].start(mail.message);
      if (state > State::mailed || state == State::started) ranks[0].start(mine.operation);
      if (state == State::followed) ranks[0].when_done(*mine.operation, [&] { followed = true; });
      if (state == State::finished) {
        ranks[1].start(theirs.operation);
        EXPECT_FALSE(ranks[0].wait(*mine.operation, kLong));
      }
      if (state == State::aborted) ranks[0].abort("");
    }
    EXPECT_EQ(followed, state == State::followed);
    EXPECT_EQ(mail.message->is_done(), state == State::mailed);
    EXPECT_EQ(theirs.operation->is_done(), state == State::finished);
    EXPECT_EQ(mine.operation->is_done() && mine.operation->error() != nullptr,
              state == State::started || state == State::followed || state == State::aborted);
  }
}

}  // namespace
}  // namespace accelerate::detail
