// How loaders behave in a loop: order, epochs, progress, early ends, errors, threads.
#include "accelerate/data/data_loader.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ranges>
#include <thread>

#include "accelerate/base/process_identity.h"
#include "tests/data/numbers.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using testing::Brittle;
using testing::counting;
using testing::numbers;
using testing::read_all;
using testing::Values;
using testing::values_of;
static_assert(std::ranges::input_range<DataLoader<at::Tensor>>);
static_assert(std::ranges::input_range<PreparedLoader<at::Tensor>>);

/// The same through get_batch, which does not know where it fails.
struct BrittleBatches : torch::data::datasets::BatchDataset<BrittleBatches, at::Tensor> {
  explicit BrittleBatches(Brittle samples) : samples(std::move(samples)) {}
  at::Tensor get_batch(at::ArrayRef<std::size_t> request) override {
    Values values;
    for (std::size_t index : request) values.push_back(samples.get(index));
    return torch::tensor(values);
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return samples.count; }
  Brittle samples;
};

TEST(DataLoader, GivesEverySampleInOrderWithFourWorkers) {
  for (int workers : {0, 1, 4}) {
    Brittle slow{.count = 101, .delay = 50us};
    EXPECT_EQ(read_all(make_data_loader(slow, {.batch_size = 3, .num_workers = workers})),
              counting(101));
  }
}

TEST(DataLoader, ShufflesAnewEveryEpochAndAlikeForOneSeed) {
  const DataLoaderOptions options{.batch_size = 4, .shuffle = true, .data_seed = 5};
  auto loader = make_data_loader(numbers(30), options),
       twin = make_data_loader(numbers(30), options);
  const Values first = read_all(loader), second = read_all(loader);
  EXPECT_NE(first, second);
  EXPECT_EQ(read_all(twin), first);
  Values sorted = second;
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, counting(30));
  loader.set_epoch(0);
  EXPECT_EQ(read_all(loader), first);
}

TEST(DataLoader, OrderDoesNotDependOnTheNumberOfWorkers) {
  DataLoaderOptions options{.batch_size = 4, .shuffle = true, .data_seed = 5};
  const Values alone = read_all(make_data_loader(numbers(30), options));
  options.num_workers = 3;
  EXPECT_EQ(read_all(make_data_loader(numbers(30), options)), alone);
}

TEST(DataLoader, TakesItsSeedFromTheDefaultGenerator) {
  torch::manual_seed(77);
  auto loader = make_data_loader(numbers(20), {.shuffle = true});
  EXPECT_EQ(loader.seed(), 77U);
  EXPECT_EQ(read_all(loader),
            read_all(make_data_loader(numbers(20), {.shuffle = true, .data_seed = 77})));
}

TEST(DataLoader, EmptyDatasetGivesNoBatchesInItsEpoch) {
  for (int workers : {0, 2}) {
    auto loader =
        make_data_loader(numbers(0), {.batch_size = 4, .shuffle = true, .num_workers = workers});
    EXPECT_EQ(loader.size(), 0U);
    EXPECT_EQ(read_all(loader), Values());
    EXPECT_EQ(loader.epoch(), 1);
  }
}

TEST(DataLoader, RepeatsTheEpochAfterAnEarlyBreak) {
  for (int workers : {0, 3}) {
    auto loader =
        make_data_loader(numbers(40), {.shuffle = true, .num_workers = workers, .data_seed = 1});
    Values beginning;
    for (auto& batch : loader) {
      beginning.push_back(values_of(batch)[0]);
      if (beginning.size() == 5) break;
    }
    EXPECT_EQ(loader.epoch(), 0);
    const Values all = read_all(loader);
    EXPECT_TRUE(std::ranges::equal(beginning, all | std::views::take(5)));
    EXPECT_EQ(loader.epoch(), 1);
  }
}

TEST(DataLoader, PassesOverTheSameLoaderAreIndependent) {
  auto loader = make_data_loader(numbers(6), {.batch_size = 2, .num_workers = 2});
  auto outer = loader.begin();
  ++outer;
  EXPECT_EQ(read_all(loader), counting(6));
  EXPECT_EQ(values_of(*outer), (Values{2, 3}));
  ++outer;
  ++outer;
  EXPECT_TRUE(outer == loader.end());
  EXPECT_EQ(loader.epoch(), 2);
}

TEST(DataLoader, PassOutlivesItsLoader) {
  auto pass = make_data_loader(numbers(6), {.batch_size = 3, .num_workers = 2}).begin();
  ++pass;
  EXPECT_EQ(values_of(*pass), (Values{3, 4, 5}));
}

TEST(DataLoader, NamesTheSampleThatCannotBeRead) {
  for (int workers : {0, 4}) {
    auto loader =
        make_data_loader(Brittle{.broken = {13}}, {.batch_size = 4, .num_workers = workers});
    Values seen;
    try {
      for (auto& batch : loader) seen.push_back(values_of(batch)[0]);
      FAIL() << "nothing was thrown";
    } catch (const SampleError& error) {
      EXPECT_EQ(error.indices(), Indices{13});
      EXPECT_NE(describe(error).find("sample 13 "), std::string::npos) << describe(error);
      EXPECT_NE(describe(error).find("bad JPEG"), std::string::npos) << describe(error);
    }
    EXPECT_EQ(seen, (Values{0, 4, 8}));  // All batches before the bad one arrive.
  }
}

TEST(DataLoader, FindsTheSampleAtFaultBehindGetBatch) {
  auto loader = make_data_loader(BrittleBatches(Brittle{.broken = {6, 13}}),
                                 {.batch_size = 4, .num_workers = 2});
  try {
    read_all(loader);
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    const std::string text = describe(error);
    EXPECT_NE(text.find("sample 6 of the dataset cannot be read (batch 1 of epoch 0)"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("bad JPEG"), std::string::npos) << text;
  }
}

TEST(DataLoader, NamesAllSamplesWhenTheyOnlyFailTogether) {
  std::vector<at::Tensor> uneven{torch::zeros({2}), torch::zeros({3})};
  try {
    static_cast<void>(make_data_loader(uneven, {.batch_size = 2}).begin());
    FAIL() << "nothing was thrown";
  } catch (const SampleError& error) {
    EXPECT_EQ(error.indices(), (Indices{0, 1}));
    EXPECT_NE(std::string(error.what()).find("samples 0, 1 "), std::string::npos) << error.what();
  }
}

TEST(DataLoader, CanBeIteratedAgainAfterAnError) {
  auto dataset = std::make_shared<Brittle>(Brittle{.broken = {7}});
  auto loader = make_data_loader(dataset, {.num_workers = 3});
  EXPECT_THROW(read_all(loader), SampleError);
  dataset->broken.clear();
  EXPECT_EQ(read_all(loader), counting(20));
}

TEST(DataLoader, PassIsAtItsEndAfterAnError) {
  auto loader = make_data_loader(Brittle{.broken = {1}});
  auto pass = loader.begin();
  EXPECT_THROW(++pass, SampleError);
  EXPECT_TRUE(pass == loader.end());
  EXPECT_NO_THROW(++pass);
}

TEST(DataLoader, LeavesALoopWithoutReadingOn) {
  struct Counted {
    [[nodiscard]] std::size_t size() const { return 1000; }
    [[nodiscard]] std::int64_t get(std::size_t index) const {
      ++*reads;
      return static_cast<std::int64_t>(index);
    }
    std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);
  };
  const Counted dataset;
  for (auto& batch : make_data_loader(dataset, {.num_workers = 4, .prefetch_factor = 2})) {
    EXPECT_EQ(batch.item<std::int64_t>(), 0);
    break;
  }
  EXPECT_LE(dataset.reads->load(), 9) << "the one that was taken, and twice four ahead";
}

TEST(DataLoader, WorkersAreNamedAndSpeakForTheirRank) {
  struct Probe {
    [[nodiscard]] std::size_t size() const { return 8; }
    [[nodiscard]] std::string get(std::size_t) const {
      char name[16] = "";
      pthread_getname_np(pthread_self(), name, sizeof(name));
      return std::string(name).substr(0, 12) + std::to_string(process_identity().rank);
    }
  };
  ProcessIdentity identity;
  identity.rank = 3;
  const ScopedProcessIdentity scope(identity);
  for (auto& batch : make_data_loader(Probe(), {.num_workers = 2}))
    EXPECT_EQ(batch[0], "data-worker-3");
}

TEST(DataLoader, WorkersComputeOnOneCoreAndLeaveTheLoopItsOwn) {
  struct Probe {
    [[nodiscard]] std::size_t size() const { return 8; }
    [[nodiscard]] int get(std::size_t) const { return at::get_num_threads(); }
  };
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  for (auto& batch : make_data_loader(Probe(), {.num_workers = 2}))
    EXPECT_EQ(batch.item<std::int64_t>(), 1);
  EXPECT_EQ(at::get_num_threads(), 3);
  std::thread([] { EXPECT_EQ(at::get_num_threads(), 3); }).join();
  at::set_num_threads(before);
}

TEST(DataLoader, WorkersKeepTheirCopyOfADatasetBetweenEpochs) {
  struct Counting : torch::data::datasets::BatchDataset<Counting, at::Tensor> {
    at::Tensor get_batch(at::ArrayRef<std::size_t>) override { return torch::tensor(calls++); }
    [[nodiscard]] std::optional<std::size_t> size() const override { return 3; }
    std::int64_t calls = 0;
  };
  auto loader = make_data_loader(Counting(), {.num_workers = 1});
  EXPECT_EQ(read_all(loader), (Values{0, 1, 2}));
  EXPECT_EQ(read_all(loader), (Values{3, 4, 5}));
}

TEST(DataLoader, RefusesOptionsOutOfRange) {
  const std::vector<std::pair<DataLoaderOptions, std::string>> cases{
      {{.batch_size = 0}, "batch_size is 0"},
      {{.batch_size = -3}, "batch_size is -3"},
      {{.num_workers = -1}, "num_workers is -1"},
      {{.num_workers = 100000}, "num_workers is 100000"},
      {{.prefetch_factor = 0}, "prefetch_factor is 0"},
      {{.shuffle = true, .batch_sampler = [](std::int64_t) { return BatchList(); }},
       "batch_sampler"}};
  for (const auto& [options, expected] : cases) {
    try {
      static_cast<void>(make_data_loader(numbers(4), options));
      ADD_FAILURE() << "accepted: " << expected;
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
  }
}

TEST(DataLoader, TakesBatchesFromASamplerOfTheUser) {
  auto by_epoch = [](std::int64_t epoch) {
    return epoch == 0 ? BatchList{{3, 1}, {0}} : BatchList{{2}};
  };
  auto loader = make_data_loader(numbers(4), {.batch_sampler = by_epoch});
  EXPECT_EQ(loader.size(), 2U);
  EXPECT_EQ(read_all(loader), (Values{3, 1, 0}));
  EXPECT_EQ(loader.size(), 1U);
  EXPECT_EQ(read_all(loader), (Values{2}));
}

TEST(DataLoader, RefusesSamplesThatDoNotExist) {
  auto loader = make_data_loader(numbers(4),
                                 {.batch_sampler = [](std::int64_t) { return BatchList{{0, 4}}; }});
  try {
    static_cast<void>(loader.begin());
    FAIL() << "nothing was thrown";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("sample 4, but the dataset has 4 samples"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace accelerate
