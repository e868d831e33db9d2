// What counts as an iterable dataset, and how passes over one behave.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <list>
#include <ranges>
#include <sstream>

#include "accelerate/data/data_loader.h"
#include "tests/data/numbers.h"
#include "tests/data/streams.h"

namespace accelerate {
namespace {

using testing::counting;
using testing::CountingReader;
using testing::read_all;
using testing::Values;
using testing::values_of;

TEST(IterableDataset, MayBeARangeAReaderOrATorchStream) {
  for (int workers : {0, 2}) {
    const DataLoaderOptions options{.batch_size = 3, .num_workers = workers};
    std::list<std::int64_t> list{0, 1, 2, 3, 4, 5, 6};
    EXPECT_EQ(read_all(make_data_loader(list, options)), counting(7));
    EXPECT_EQ(read_all(make_data_loader(CountingReader{7}, options)), counting(7));
    EXPECT_EQ(read_all(make_data_loader(testing::TorchStream(7), options)), counting(7));
    EXPECT_EQ(read_all(make_data_loader(testing::CountingRange(7), options)), counting(7));
    EXPECT_EQ(read_all(make_data_loader(std::make_shared<CountingReader>(7), options)),
              counting(7));
    auto even = std::views::iota(0, 7) | std::views::filter([](int i) { return i % 2 == 0; });
    EXPECT_EQ(read_all(make_data_loader(even, options)), (Values{0, 2, 4, 6}));
  }
}

TEST(IterableDataset, KnowsItsSizeOrSaysThatItDoesNot) {
  EXPECT_EQ(make_data_loader(testing::CountingRange(7), {.batch_size = 3}).size(), 3U);
  EXPECT_EQ(make_data_loader(testing::TorchStream(7), {.batch_size = 3, .drop_last = true}).size(),
            2U);
  auto unsized = make_data_loader(CountingReader{7}, {.batch_size = 3});
  EXPECT_THROW(static_cast<void>(unsized.size()), DataError);
  EXPECT_THROW(static_cast<void>(unsized.total_dataset_length()), DataError);
}

TEST(IterableDataset, TakesACollateFunction) {
  auto sum = [](const std::vector<std::int64_t>& samples) {
    std::int64_t total = 0;
    for (auto sample : samples) total += sample;
    return total;
  };
  std::vector<std::int64_t> sums;
  for (auto& batch : make_data_loader(CountingReader{5}, {.batch_size = 2}, sum)) {
    sums.push_back(batch);
  }
  EXPECT_EQ(sums, (std::vector<std::int64_t>{1, 5, 4}));
}

TEST(IterableDataset, EveryPassStartsAtItsBeginningAlsoInsideAnother) {
  auto loader = make_data_loader(CountingReader{6}, {.batch_size = 2});
  int passes = 0;
  for (auto& batch : loader) {
    EXPECT_EQ(read_all(loader), counting(6)) << batch;
    ++passes;
  }
  EXPECT_EQ(passes, 3);
}

TEST(IterableDataset, ReaderThatCannotBeCopiedIsReadByOnePassAtATime) {
  auto reader = std::make_shared<CountingReader>(6);
  auto loader = make_data_loader(reader, {.batch_size = 2});
  auto pass = loader.begin();
  try {
    static_cast<void>(loader.begin());
    FAIL() << "nothing was thrown";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("second pass"), std::string::npos) << error.what();
  }
  ++pass;
  EXPECT_EQ(values_of(*pass), (Values{2, 3}));  // The first pass is not disturbed.
}

TEST(IterableDataset, IsResetBeforeEachPassWhereItCan) {
  struct Resettable : CountingReader {
    Resettable() : CountingReader{4} {}
    void reset() { at = 0; }
  };
  auto loader = make_data_loader(std::make_shared<Resettable>(), {.batch_size = 2});
  EXPECT_EQ(read_all(loader), counting(4));
  EXPECT_EQ(read_all(loader), counting(4));
}

TEST(IterableDataset, ErrorComesInItsTurnAndNamesTheSample) {
  for (int workers : {0, 2}) {
    auto loader = make_data_loader(CountingReader{.count = 20, .broken = 5},
                                   {.batch_size = 2, .num_workers = workers});
    Values seen;
    try {
      for (auto& batch : loader) seen.push_back(values_of(batch)[0]);
      FAIL() << "nothing was thrown";
    } catch (const SampleError& error) {
      EXPECT_EQ(error.indices(), Indices{5});
      EXPECT_NE(describe(error).find("connection lost"), std::string::npos) << describe(error);
    }
    EXPECT_EQ(seen, (Values{0, 2}));
  }
}

TEST(IterableDataset, ErrorOfTheCollateFunctionNamesTheBatch) {
  auto fail = [](const std::vector<std::int64_t>& samples) -> at::Tensor {
    if (samples[0] == 4) throw std::runtime_error("no such label");
    return torch::tensor(samples);
  };
  auto loader = make_data_loader(CountingReader{20}, {.batch_size = 2}, fail);
  try {
    read_all(loader);
    FAIL() << "nothing was thrown";
  } catch (const SampleError& error) {
    EXPECT_NE(describe(error).find("batch 2 of epoch 0"), std::string::npos) << describe(error);
    EXPECT_NE(describe(error).find("no such label"), std::string::npos) << describe(error);
  }
}

TEST(IterableDataset, RefusesWhatNeedsAnIndex) {
  const std::vector<std::pair<DataLoaderOptions, std::string>> cases{
      {{.shuffle = true}, "shuffle is on"},
      {{.batch_sampler = [](std::int64_t) { return BatchList(); }}, "batch_sampler chooses"},
      {{.batch_size = 0}, "batch_size is 0"}};
  for (const auto& [options, expected] : cases) {
    try {
      static_cast<void>(make_data_loader(CountingReader{4}, options));
      ADD_FAILURE() << "accepted: " << expected;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

TEST(IterableDataset, WithoutEvenBatchesRanksTakeWhatIsLeft) {
  for (int rank : {0, 1}) {
    auto loader =
        prepare_data_loader(make_data_loader(CountingReader{5}, {.batch_size = 2}),
                            {.rank = rank,
                             .world_size = 2,
                             .config = {.dispatch_batches = false, .even_batches = false}});
    EXPECT_EQ(read_all(loader), rank == 0 ? (Values{0, 1, 4}) : (Values{2, 3}));
  }
}

}  // namespace
}  // namespace accelerate
