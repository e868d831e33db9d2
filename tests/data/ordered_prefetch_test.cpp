// Needs no LibTorch: also built alone under ThreadSanitizer and AddressSanitizer.
#include "accelerate/data/ordered_prefetch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;

std::vector<std::size_t> drain(OrderedPrefetch<std::size_t>& prefetch) {
  std::vector<std::size_t> items;
  while (auto item = prefetch.next()) items.push_back(*item);
  return items;
}

std::vector<std::size_t> counting(std::size_t count) {
  std::vector<std::size_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

TEST(OrderedPrefetch, KeepsTheOrderWhateverTheWorkersDo) {
  for (std::size_t workers : {1U, 2U, 4U, 7U}) {
    OrderedPrefetch<std::size_t> prefetch(
        {.count = 300, .workers = workers, .capacity = workers * 2},
        [](std::size_t, std::size_t item) {
          // Later items of a round are faster, so that a wrong queue would hand them out first.
          std::this_thread::sleep_for(std::chrono::microseconds((7 - item % 7) * 30));
          return item;
        });
    EXPECT_EQ(drain(prefetch), counting(300));
    EXPECT_EQ(prefetch.next(), std::nullopt);
  }
}

TEST(OrderedPrefetch, NeverRunsFurtherAheadThanItsCapacity) {
  std::atomic<std::size_t> made{0}, taken{0}, furthest{0};
  OrderedPrefetch<std::size_t> prefetch(
      {.count = 200, .workers = 4, .capacity = 6}, [&](std::size_t, std::size_t item) {
        const std::size_t ahead = ++made - taken.load();
        std::size_t seen = furthest;
        while (seen < ahead && !furthest.compare_exchange_weak(seen, ahead)) {
        }
        return item;
      });
  ASSERT_TRUE(prefetch.next());
  ++taken;
  while (made < 6) std::this_thread::yield();  // As far as it may run while nobody takes more.
  while (prefetch.next()) ++taken;
  // The item just taken may not be counted yet.
  EXPECT_LE(furthest.load(), 7U);
  EXPECT_GE(furthest.load(), 2U);
}

TEST(OrderedPrefetch, GivesNothingWhenThereIsNothing) {
  OrderedPrefetch<int> prefetch({.count = 0, .workers = 3, .capacity = 3},
                                [](std::size_t, std::size_t) { return 1; });
  EXPECT_EQ(prefetch.next(), std::nullopt);
}

TEST(OrderedPrefetch, RethrowsInTurnAndGoesOn) {
  OrderedPrefetch<std::size_t> prefetch({.count = 6, .workers = 3, .capacity = 6},
                                        [](std::size_t, std::size_t item) {
                                          if (item == 2) throw std::runtime_error("item 2");
                                          return item;
                                        });
  EXPECT_EQ(prefetch.next(), 0U);
  EXPECT_EQ(prefetch.next(), 1U);
  EXPECT_THROW(prefetch.next(), std::runtime_error);
  EXPECT_EQ(drain(prefetch), (std::vector<std::size_t>{3, 4, 5}));
}

TEST(OrderedPrefetch, EndsEarlyWithWorkersAtEveryPoint) {
  std::mt19937 draw(3);
  for (int round = 0; round < 200; ++round) {
    OrderedPrefetch<std::string> prefetch(
        {.count = 50, .workers = 1 + draw() % 4, .capacity = 1 + draw() % 9},
        [](std::size_t, std::size_t item) { return std::string(item * 10, 'x'); });
    for (std::size_t taken = draw() % 20; taken > 0; --taken) prefetch.next();
  }
}

TEST(OrderedPrefetch, WaitsOnlyForItemsInTheMaking) {
  std::atomic<int> made{0};
  {
    OrderedPrefetch<int> prefetch({.count = 1000, .workers = 2, .capacity = 100},
                                  [&](std::size_t, std::size_t) {
                                    std::this_thread::sleep_for(50ms);
                                    return ++made;
                                  });
    prefetch.next();
  }
  EXPECT_LT(made.load(), 50) << "two or three, or as many as a busy machine makes meanwhile";
}

TEST(OrderedPrefetch, TellsEachThreadItsNumberAndSurroundsItsWork) {
  std::mutex mutex;
  std::set<std::size_t> entered;
  std::atomic<bool> mismatch{false};
  thread_local std::size_t own = 99;
  {
    OrderedPrefetch<std::size_t> prefetch(
        {.count = 40, .workers = 3, .capacity = 3},
        [&](std::size_t worker, std::size_t item) {
          if (own != worker) mismatch = true;
          return item;
        },
        [&](std::size_t worker, const std::function<void()>& work) {
          own = worker;
          {
            std::lock_guard lock(mutex);
            entered.insert(worker);
          }
          work();
        });
    drain(prefetch);
  }
  EXPECT_FALSE(mismatch);
  EXPECT_EQ(entered, (std::set<std::size_t>{0, 1, 2}));
}

TEST(OrderedPrefetch, MovesItemsThatCannotBeCopied) {
  OrderedPrefetch<std::unique_ptr<int>> prefetch(
      {.count = 2, .workers = 1, .capacity = 1},
      [](std::size_t, std::size_t item) { return std::make_unique<int>(static_cast<int>(item)); });
  EXPECT_EQ(**prefetch.next(), 0);
  EXPECT_EQ(**prefetch.next(), 1);
}

}  // namespace
}  // namespace accelerate::detail
