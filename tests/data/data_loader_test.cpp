// How loaders behave in a loop: order, epochs, progress, early ends, errors, threads.
#include "accelerate/data/data_loader.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <torch/torch.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <ranges>
#include <set>
#include <thread>

#include "accelerate/base/process_identity.h"

namespace accelerate {
namespace {

using namespace std::chrono_literals;
using Values = std::vector<std::int64_t>;

static_assert(std::ranges::input_range<DataLoader<at::Tensor>>);
static_assert(std::ranges::input_range<PreparedLoader<at::Tensor>>);

Values values_of(const at::Tensor& batch) {
  const auto* data = batch.const_data_ptr<std::int64_t>();
  return {data, data + batch.numel()};
}

template <typename Loader>
Values read_all(const Loader& loader) {
  Values all;
  for (auto& batch : loader) {
    const Values values = values_of(batch);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

Values counting(std::int64_t count) {
  Values values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

at::Tensor numbers(std::int64_t count) {
  return torch::arange(count);
}

/// Sample i is i; some samples throw, all take a while.
struct Brittle {
  std::size_t count = 20;
  std::set<std::size_t> broken = {};
  std::chrono::microseconds delay{0};
  [[nodiscard]] std::size_t size() const { return count; }
  [[nodiscard]] std::int64_t get(std::size_t index) const {
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    if (broken.contains(index)) throw std::runtime_error("bad JPEG");
    return static_cast<std::int64_t>(index);
  }
};

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

/// A prepared loader of a group of `ranks` with a state that the test can ask.
struct Prepared {
  std::shared_ptr<GradientState> state = std::make_shared<GradientState>();
  LoaderContext context{.gradient_state = state};
  PreparedLoader<at::Tensor> loader;
  explicit Prepared(const DataLoader<at::Tensor>& plain)
      : loader(prepare_data_loader(plain, context)) {}
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

TEST(DataLoader, EmptyDatasetGivesNoBatchesAndNoEpoch) {
  for (int workers : {0, 2}) {
    auto loader =
        make_data_loader(numbers(0), {.batch_size = 4, .shuffle = true, .num_workers = workers});
    EXPECT_EQ(loader.size(), 0U);
    EXPECT_EQ(read_all(loader), Values());
    EXPECT_EQ(loader.epoch(), 0);
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

TEST(DataLoader, LeavesALoopPromptlyWhileTheDatasetBlocks) {
  const auto start = std::chrono::steady_clock::now();
  for (auto& batch : make_data_loader(Brittle{.count = 1000, .delay = 100ms}, {.num_workers = 4})) {
    EXPECT_EQ(batch.item<std::int64_t>(), 0);
    break;
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
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

TEST(PreparedLoader, AnnouncesTheEndWithTheLastBatchInEveryEpoch) {
  Prepared prepared(make_data_loader(numbers(16), {.batch_size = 4}));
  for (int epoch = 0; epoch < 2; ++epoch) {
    int step = 0;
    for (auto& batch : prepared.loader) {
      EXPECT_TRUE(prepared.state->in_dataloader());
      EXPECT_EQ(prepared.state->end_of_dataloader(), step++ == 3) << batch;
    }
    EXPECT_FALSE(prepared.state->in_dataloader());
    EXPECT_FALSE(prepared.state->end_of_dataloader());
    EXPECT_EQ(prepared.state->remainder(), -1);
  }
}

TEST(PreparedLoader, LeavesTheStateBehindOnBreakAndOnError) {
  Prepared prepared(make_data_loader(Brittle{.broken = {5}}, {.num_workers = 2}));
  for (auto& batch : prepared.loader) {
    EXPECT_EQ(prepared.state->depth(), 1U) << batch;
    break;
  }
  EXPECT_FALSE(prepared.state->in_dataloader());
  EXPECT_THROW(read_all(prepared.loader), SampleError);
  EXPECT_FALSE(prepared.state->in_dataloader());
}

TEST(PreparedLoader, InnerLoopSpeaksForItselfUntilItEnds) {
  Prepared train(make_data_loader(numbers(6), {.batch_size = 4}));
  auto eval = prepare_data_loader(make_data_loader(numbers(3)), train.context);
  std::vector<bool> outer, inner;
  for (auto& batch : train.loader) {
    for (auto& other : eval) inner.push_back(train.state->end_of_dataloader() && other.defined());
    outer.push_back(train.state->end_of_dataloader() && batch.defined());
    EXPECT_EQ(train.state->remainder(), 2);
  }
  EXPECT_EQ(inner, (std::vector<bool>{false, false, true, false, false, true}));
  EXPECT_EQ(outer, (std::vector<bool>{false, true}));
}

TEST(PreparedLoader, RanksDrawOneOrderFromTheConfiguredSeed) {
  LoaderContext context{.world_size = 2, .config = {.data_seed = 9}};
  auto plain = make_data_loader(numbers(8), {.shuffle = true});
  const Values first = read_all(prepare_data_loader(plain, context));
  context.rank = 1;
  const Values second = read_all(prepare_data_loader(plain, context));
  Values all = first;
  all.insert(all.end(), second.begin(), second.end());
  std::ranges::sort(all);
  EXPECT_EQ(all, counting(8));
  EXPECT_EQ(first, read_all(prepare_data_loader(
                       make_data_loader(numbers(8), {.shuffle = true, .data_seed = 9}),
                       {.world_size = 2})));
}

TEST(PreparedLoader, SaysWhichBatchSizeCannotBeSplit) {
  try {
    static_cast<void>(prepare_data_loader(make_data_loader(numbers(9), {.batch_size = 5}),
                                          {.world_size = 2, .config = {.split_batches = true}}));
    FAIL() << "nothing was thrown";
  } catch (const ConfigError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("batch_size (5)"), std::string::npos) << text;
    EXPECT_NE(text.find("number (2)"), std::string::npos) << text;
  }
}

TEST(PreparedLoader, SharesBatchesOfTheUserWithoutRemainder) {
  auto plain = make_data_loader(numbers(9), {.batch_sampler = [](std::int64_t) {
                                  return BatchList{{0, 1}, {2}, {3, 4, 5}};
                                }});
  auto state = std::make_shared<GradientState>();
  auto second = prepare_data_loader(plain, {.rank = 1, .world_size = 2, .gradient_state = state});
  EXPECT_EQ(second.total_batch_size(), 0);
  for (auto& batch : second) EXPECT_EQ(state->remainder(), -1) << batch;
  EXPECT_EQ(read_all(second), (Values{2, 0, 1}));
}

TEST(PreparedLoader, MovesBatchesToItsDevice) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
  auto data = std::tuple(torch::arange(64), torch::arange(64) * 2);
  for (bool pin : {false, true}) {
    auto plain = make_data_loader(data, {.batch_size = 8, .num_workers = 2, .pin_memory = pin});
    for (auto& [x, y] : prepare_data_loader(plain, {.device = c10::Device("cuda:0")})) {
      EXPECT_TRUE(x.is_cuda());
      EXPECT_TRUE(at::equal(x * 2, y));
    }
  }
}

TEST(PreparedLoader, MovesBatchesToTheMetaDeviceForLackOfAnother) {
  auto plain = make_data_loader(std::tuple(numbers(4), std::string("label")), {.batch_size = 2});
  for (auto& [x, label] : prepare_data_loader(plain, {.device = c10::Device(c10::kMeta)})) {
    EXPECT_TRUE(x.is_meta());
    EXPECT_EQ(label, "label");
  }
}

TEST(SkipFirstBatches, LeavesOutBatchesWithoutReadingThem) {
  auto dataset = Brittle{.count = 16, .broken = {0, 1, 2, 3, 4, 5, 6, 7}};
  for (int workers : {0, 2}) {
    auto skipped =
        skip_first_batches(make_data_loader(dataset, {.batch_size = 4, .num_workers = workers}), 2);
    EXPECT_EQ(skipped.size(), 2U);
    EXPECT_EQ(read_all(skipped), (Values{8, 9, 10, 11, 12, 13, 14, 15}));
  }
}

TEST(SkipFirstBatches, GoesOnInTheEpochOfTheLoader) {
  const DataLoaderOptions options{.batch_size = 2, .shuffle = true, .data_seed = 4};
  auto whole = make_data_loader(numbers(10), options),
       resumed = make_data_loader(numbers(10), options);
  read_all(whole);
  resumed.set_epoch(1);
  const Values second = read_all(whole), third = read_all(whole);
  const Values rest = read_all(skip_first_batches(resumed, 3));
  EXPECT_TRUE(std::ranges::equal(rest, second | std::views::drop(6)));
  EXPECT_EQ(read_all(resumed), third);
}

TEST(SkipFirstBatches, AnnouncesTheEndAndMaySkipAll) {
  Prepared prepared(make_data_loader(numbers(16), {.batch_size = 4}));
  auto skipped = skip_first_batches(skip_first_batches(prepared.loader, 1), 2);
  for (auto& batch : skipped) EXPECT_TRUE(prepared.state->end_of_dataloader()) << batch;
  EXPECT_EQ(read_all(skip_first_batches(prepared.loader, 9)), Values());
  EXPECT_FALSE(prepared.state->in_dataloader());
}

}  // namespace
}  // namespace accelerate
