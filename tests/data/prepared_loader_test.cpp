// What prepared loaders add: progress for the GradientState, a rank's share, a device; and
// skipping.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <ranges>
#include <string>

#include "accelerate/data/data_loader.h"
#include "tests/data/numbers.h"
#include "tests/support/log_capture.h"

namespace accelerate {
namespace {

using testing::Brittle;
using testing::counting;
using testing::numbers;
using testing::read_all;
using testing::Values;

/// A prepared loader of a group of `ranks` with a state that the test can ask.
struct Prepared {
  std::shared_ptr<GradientState> state = std::make_shared<GradientState>();
  LoaderContext context{.gradient_state = state};
  PreparedLoader<at::Tensor> loader;
  explicit Prepared(const DataLoader<at::Tensor>& plain)
      : loader(prepare_data_loader(plain, context)) {}
};

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

TEST(PreparedLoader, SharesBatchesOfTheUserAndSaysHowManySamplesCount) {
  auto plain = make_data_loader(numbers(9), {.batch_sampler = [](std::int64_t) {
                                  return BatchList{{0, 1}, {2}, {3, 4, 5}};
                                }});
  auto state = std::make_shared<GradientState>();
  auto second = prepare_data_loader(plain, {.rank = 1, .world_size = 2, .gradient_state = state});
  EXPECT_EQ(second.total_batch_size(), 0);
  std::vector<std::int64_t> counted;
  for (auto& batch : second) {
    EXPECT_EQ(state->remainder(), 3) << batch;
    EXPECT_EQ(state->progress()->step_ranks, 2);  // Their batches differ in size.
    counted.push_back(state->progress()->step_samples);
  }
  EXPECT_EQ(counted, (std::vector<std::int64_t>{-1, 3}));
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

TEST(PreparedLoader, CopiesShareEvenBatchesAndTheNextPassSeesIt) {
  auto loader = prepare_data_loader(make_data_loader(numbers(5), {.batch_size = 2}),
                                    {.rank = 1, .world_size = 2});
  auto copy = loader;
  EXPECT_TRUE(loader.even_batches());
  EXPECT_EQ(read_all(loader), (Values{2, 3, 1, 2}));
  copy.set_even_batches(false);
  EXPECT_FALSE(loader.even_batches());
  EXPECT_EQ(read_all(loader), (Values{2, 3}));
}

TEST(EvenBatchesScope, PutsBackWhatEachLoaderHadAndWarnsOfDispatchers) {
  testing::LogCapture log;
  auto even = std::make_shared<LoaderControl>(true, false),
       uneven = std::make_shared<LoaderControl>(false, false),
       dispatcher = std::make_shared<LoaderControl>(true, true);
  {
    EvenBatchesScope scope({even, uneven, dispatcher}, false);
    EXPECT_FALSE(even->even_batches());
    EXPECT_FALSE(uneven->even_batches());
    EXPECT_TRUE(dispatcher->even_batches());
  }
  EXPECT_TRUE(even->even_batches());
  EXPECT_FALSE(uneven->even_batches());
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines()[0].find("dispatch_batches"), std::string::npos) << log.lines()[0];
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
