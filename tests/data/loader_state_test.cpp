// state_dict and load_state_dict: an epoch that is interrupted anywhere goes on as if it had not
// been.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <tuple>

#include "accelerate/data/data_loader.h"
#include "tests/data/numbers.h"
#include "tests/data/streams.h"

namespace accelerate {
namespace {

using testing::Brittle;
using testing::numbers;
using testing::read_all;
using testing::Values;
using testing::values_of;

DataLoader<at::Tensor> shuffled(int workers = 0, std::uint64_t seed = 3) {
  return make_data_loader(
      numbers(22), {.batch_size = 4, .shuffle = true, .num_workers = workers, .data_seed = seed});
}

/// The samples of a pass up to and with batch `count`, and the state after it.
std::pair<Values, LoaderState> interrupted(const auto& loader, int count) {
  Values seen;
  for (auto& batch : loader) {
    for (auto value : values_of(batch)) seen.push_back(value);
    if (--count == 0) break;
  }
  return {seen, loader.state_dict()};
}

Values operator+(Values left, const Values& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(LoaderState, GoesOnAfterEveryBatchOfEveryEpochWithAnyNumberOfWorkers) {
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int batches = 1; batches <= 6; ++batches) {
      for (int workers : {0, 3}) {
        auto whole = shuffled();
        whole.set_epoch(epoch);
        const Values all = read_all(whole), next = read_all(whole);
        auto first = shuffled(workers);
        first.set_epoch(epoch);
        const auto [seen, state] = interrupted(first, batches);
        auto second = shuffled(3 - workers, 99);  // Takes the seed of the state.
        second.load_state_dict(state);
        EXPECT_EQ(seen + read_all(second), all) << epoch << ", " << batches;
        EXPECT_EQ(read_all(second), next);
      }
    }
  }
}

TEST(LoaderState, CountsEpochsBatchesAndSamples) {
  auto loader = shuffled();
  EXPECT_EQ(loader.state_dict(),
            (LoaderState{.seed = 3, .total_batch_size = 4, .dataset_length = 22}));
  const auto state = interrupted(loader, 6).second;
  EXPECT_EQ(state.epoch, 0);
  EXPECT_EQ(state.batches, 6);
  EXPECT_EQ(state.samples, 22);
  read_all(loader);
  EXPECT_EQ(loader.state_dict().epoch, 1);
  EXPECT_EQ(loader.state_dict().batches, 0);
}

TEST(LoaderState, ReadsNothingOfWhatWasConsumed) {
  Brittle dataset{.count = 12, .broken = {0, 1, 2, 3, 4, 5, 6, 7}};
  auto loader = make_data_loader(dataset, {.batch_size = 4});
  loader.load_state_dict({.batches = 2, .total_batch_size = 4, .dataset_length = 12});
  EXPECT_EQ(read_all(loader), (Values{8, 9, 10, 11}));
}

TEST(LoaderState, IsOfTheNewestPassThatIsUnderWay) {
  auto loader = shuffled();
  auto outer = loader.begin();
  {
    auto inner = loader.begin();
    ++inner;
    EXPECT_EQ(loader.state_dict().batches, 2);
    ++outer;
    ++outer;
    EXPECT_EQ(loader.state_dict().batches, 2);
  }
  EXPECT_EQ(loader.state_dict().batches, 3) << "the outer pass goes on";
  read_all(loader);
  EXPECT_EQ(loader.epoch(), 1);
  EXPECT_EQ(loader.state_dict().epoch, 0) << "of the outer pass";
  EXPECT_EQ(loader.state_dict().batches, 3);
}

/// Is read by one pass at a time.
struct OneAtATime : testing::CountingReader {
  void reset() { at = 0; }
};

TEST(LoaderState, IsNotTouchedByAPassThatCannotBegin) {
  auto reader = std::make_shared<OneAtATime>(OneAtATime{{.count = 8}});
  auto loader = make_data_loader(reader, {.batch_size = 2});
  {
    auto pass = loader.begin();
    EXPECT_THROW(static_cast<void>(loader.begin()), UsageError);
    ++pass;
    EXPECT_EQ(loader.state_dict().batches, 2) << "of the pass that goes on";
    loader.load_state_dict({.batches = 3, .total_batch_size = 2});
    EXPECT_THROW(static_cast<void>(loader.begin()), UsageError);
  }
  EXPECT_EQ(read_all(loader), (Values{6, 7})) << "the next pass is the one that resumes";
}

TEST(LoaderState, KnowsWhatWasSkipped) {
  auto loader = shuffled();
  const auto state = interrupted(skip_first_batches(loader, 2), 1).second;
  EXPECT_EQ(state.batches, 3);
  loader.load_state_dict(state);
  EXPECT_EQ(loader.state_dict(), state);
  EXPECT_EQ(read_all(loader).size(), 10U);
}

TEST(LoaderState, ReadsAnIterableDatasetFromItsBeginning) {
  for (int workers : {0, 2}) {
    auto loader =
        make_data_loader(testing::EpochRange(10), {.batch_size = 3, .num_workers = workers});
    read_all(loader);
    const auto [seen, state] = interrupted(loader, 2);
    auto resumed = make_data_loader(testing::EpochRange(10), {.batch_size = 3});
    resumed.load_state_dict(state);
    EXPECT_EQ(read_all(resumed), (Values{106, 107, 108, 109}));
    EXPECT_EQ(read_all(resumed).front(), 200);
  }
}

TEST(LoaderState, FitsAnyNumberOfRanksWithTheSameStep) {
  const LoaderState state{.batches = 1, .samples = 8, .total_batch_size = 8, .dataset_length = 16};
  for (int ranks : {1, 2, 4}) {
    Values rest;
    for (int rank = 0; rank < ranks; ++rank) {
      auto loader = prepare_data_loader(make_data_loader(numbers(16), {.batch_size = 8 / ranks}),
                                        {.rank = rank, .world_size = ranks});
      loader.load_state_dict(state);
      rest = std::move(rest) + read_all(loader);
    }
    EXPECT_EQ(rest, (Values{8, 9, 10, 11, 12, 13, 14, 15})) << ranks;
  }
}

// A loader of each kind: over rows, shuffled rows, a stream, and batches of the user's.
std::vector<std::function<PreparedLoader<at::Tensor>(std::int64_t size, int rank, int ranks)>>
loaders_of_22() {
  const auto context = [](int rank, int ranks) {
    return LoaderContext{.rank = rank,
                         .world_size = ranks,
                         .config = {.dispatch_batches = false, .even_batches = false}};
  };
  const auto batches = [](std::int64_t) {
    BatchList list;
    for (std::size_t i = 0; i < 22; i += 2) list.push_back({i, i + 1});
    return list;
  };
  return {
      [=](std::int64_t size, int rank, int ranks) {
        return prepare_data_loader(make_data_loader(numbers(22), {.batch_size = size}),
                                   context(rank, ranks));
      },
      [=](std::int64_t size, int rank, int ranks) {
        return prepare_data_loader(
            make_data_loader(numbers(22), {.batch_size = size, .shuffle = true, .data_seed = 3}),
            context(rank, ranks));
      },
      [=](std::int64_t size, int rank, int ranks) {
        return prepare_data_loader(make_data_loader(testing::EpochRange(22), {.batch_size = size}),
                                   context(rank, ranks));
      },
      [=](std::int64_t, int rank, int ranks) {
        return prepare_data_loader(make_data_loader(numbers(22), {.batch_sampler = batches}),
                                   context(rank, ranks));
      }};
}

// Reads until `samples` are consumed on all ranks together; returns them and the state.
std::pair<Values, LoaderState> consume(const auto& make, std::int64_t size, int ranks, int steps) {
  Values seen;
  LoaderState state;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto [values, after] = interrupted(make(size, rank, ranks), steps);
    seen = std::move(seen) + values;
    state = after;
  }
  return {seen, state};
}

TEST(LoaderState, GoesOnBehindWhatWasConsumedInStepsOfAnotherSize) {
  int kind = 0;
  for (const auto& make : loaders_of_22()) {
    SCOPED_TRACE("loader " + std::to_string(kind++));
    auto whole = make(22, 0, 1);
    Values all = read_all(whole);
    std::ranges::sort(all);
    for (const auto& [size, ranks] : {std::pair(3, 1), std::pair(2, 2), std::pair(5, 3)}) {
      auto [seen, state] = consume(make, 2, 2, 2);
      LoaderState twice;  // Stops again, in the rest.
      for (int rank = 0; rank < ranks; ++rank) {
        auto loader = make(size, rank, ranks);
        loader.load_state_dict(state);
        Values values;
        std::tie(values, twice) = interrupted(loader, 1);
        seen = std::move(seen) + values;
      }
      for (int rank = 0; rank < 2; ++rank) {
        auto loader = make(4, rank, 2);
        loader.load_state_dict(twice);
        if (kind != 3) {
          const std::size_t left = loader.batches_left();
          auto counted = make(4, rank, 2);
          counted.load_state_dict(twice);
          std::size_t batches = 0;
          for (auto& batch : counted) batches += batch.defined() ? 1 : 0;
          EXPECT_EQ(left, batches);
        }
        seen = std::move(seen) + read_all(loader);
      }
      std::ranges::sort(seen);
      EXPECT_EQ(seen, all) << size << " on " << ranks;
    }
  }
}

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST(LoaderState, OfAnotherLoaderIsRefused) {
  const LoaderState good{.total_batch_size = 4, .dataset_length = 22};
  const auto changed = [&](auto change) {
    LoaderState state = good;
    change(state);
    return state;
  };
  const std::vector<std::pair<LoaderState, std::string>> cases{
      {changed([](auto& s) { s.total_batch_size = 0; }), "batches of a batch sampler"},
      {changed([](auto& s) { s.dataset_length = 23; }), "dataset length is 23"},
      {changed([](auto& s) { s.epoch = -1; }), "-1 epochs"},
      {changed([](auto& s) { s.batches = -5; }), "-5 batches"},
      {changed([](auto& s) { s.batches = 7; }), "7 batches of an epoch"},
      {changed([](auto& s) { s.offset = 23; }), "23 samples or batches of epoch 0 came before"},
      {changed([](auto& s) { s.offset = kMost; }), "came before, but there are at most 22"},
      {changed([](auto& s) { s.epoch = kMost; }), "of epoch 9223372036854775807"},
      {changed([](auto& s) { s.batches = 2, s.total_batch_size = kMost; }), "at most 1."},
      {changed([](auto& s) { s.offset = 4, s.batches = 6; }), "at most 5."}};
  for (const auto& [state, expected] : cases) {
    auto loader = shuffled();
    try {
      loader.load_state_dict(state);
      ADD_FAILURE() << "accepted: " << expected;
    } catch (const CheckpointError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
    EXPECT_EQ(read_all(loader).size(), 22U);
  }
}

// Nothing says how many batches a stream or a batch sampler has, so what can be counted is allowed.
TEST(LoaderState, OfNumbersThatCannotBeCountedIsRefused) {
  const LoaderState states[] = {{.offset = kMost},
                                {.batches = 1, .total_batch_size = kMost},
                                {.batches = kMost / 2, .total_batch_size = 3},
                                {.batches = kMost / 2, .num_processes = 3}};
  const auto stream = make_data_loader(testing::EpochRange(10), {.batch_size = 3});
  const auto sampled = make_data_loader(
      numbers(2), {.batch_sampler = [](std::int64_t) { return BatchList{{0}, {1}}; }});
  for (LoaderState state : states) {
    state.dataset_length = state.total_batch_size == 0 ? 2 : -1;
    auto loader = state.total_batch_size == 0 ? sampled.core().plan : stream.core().plan;
    EXPECT_THROW(loader.load(state), CheckpointError);
  }
}

}  // namespace
}  // namespace accelerate
