// What prepared loaders add: progress for the GradientState, a rank's share, a device; and
// skipping.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <ranges>
#include <string>
#include <thread>

#include "accelerate/comm/operations.h"
#include "accelerate/data/data_loader.h"
#include "tests/data/numbers.h"
#include "tests/data/streams.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"

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

// In every other epoch there is a batch for the first rank alone.
TEST(PreparedLoader, CountsAnEpochAlsoOnARankThatHasNoBatchInIt) {
  const auto batches = [](std::int64_t epoch) {
    return epoch % 2 == 0 ? BatchList{{0, 1, 2, 3}} : BatchList{{3, 2}, {1, 0}};
  };
  LoaderContext context{.world_size = 2, .config = {.even_batches = false}};
  auto plain = make_data_loader(numbers(4), {.batch_sampler = batches});
  auto first = prepare_data_loader(plain, context);
  context.rank = 1;
  auto second = prepare_data_loader(plain, context);
  for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
    EXPECT_EQ(second.epoch(), epoch);
    Values all = read_all(first);
    const Values others = read_all(second);
    all.insert(all.end(), others.begin(), others.end());
    std::ranges::sort(all);
    EXPECT_EQ(all, counting(4)) << "epoch " << epoch;
  }
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

/// Stands for a GPU: notes what is sent and when it is waited for.
struct FakeMover final : detail::DeviceMover {
  struct FakeArrival final : detail::Arrival {
    explicit FakeArrival(FakeMover* mover) : mover(mover) {}
    void wait(const std::vector<at::Tensor>& tensors) override {
      mover->waited += tensors.size();
      if (std::this_thread::get_id() != mover->loop) mover->waits_on_loop = false;
    }
    FakeMover* mover;
  };
  at::Tensor send(const at::Tensor& tensor) override {
    ++sent_count;
    if (std::this_thread::get_id() == loop) ++sent_on_loop;
    return tensor + 100;
  }
  std::shared_ptr<detail::Arrival> sent() override { return std::make_shared<FakeArrival>(this); }
  std::thread::id loop = std::this_thread::get_id();
  std::atomic<std::size_t> sent_count = 0, sent_on_loop = 0, waited = 0;
  std::atomic<bool> waits_on_loop = true;
};

TEST(PreparedLoader, WorkersSendBatchesAheadAndTheLoopWaitsForTheirArrival) {
  auto mover = std::make_shared<FakeMover>();
  auto data = std::tuple(torch::arange(8), torch::arange(8));
  auto plain = make_data_loader(data, {.batch_size = 2, .num_workers = 2});
  std::int64_t first = 100;
  for (auto& [x, y] : prepare_data_loader(plain, {.mover = mover})) {
    EXPECT_EQ(x[0].item<std::int64_t>(), first);
    EXPECT_TRUE(at::equal(x, y));
    first += 2;
  }
  EXPECT_EQ(mover->sent_count, 8U);
  EXPECT_EQ(mover->sent_on_loop, 0U);
  EXPECT_EQ(mover->waited, 8U);
  EXPECT_TRUE(mover->waits_on_loop);
  for (auto& [x, y] : prepare_data_loader(make_data_loader(data), {.mover = mover})) {
    EXPECT_LT(x.item<std::int64_t>(), 100) << y;  // Nothing runs beside this loop.
  }
}

// upstream: test_distributed_data_loop.py, the sizes of the batches of two ranks.
TEST(PreparedLoader, GivesTwoRanksTheBatchSizesThatUpstreamGivesThem) {
  struct Expected {
    std::int64_t samples, batch_size;
    bool even;
    std::array<Values, 2> sizes;
  };
  const std::vector<Expected> cases{{3, 1, true, {{{1, 1}, {1, 1}}}},
                                    {7, 2, true, {{{2, 2}, {2, 2}}}},
                                    {3, 1, false, {{{1, 1}, {1}}}},
                                    {7, 2, false, {{{2, 2}, {2, 1}}}}};
  for (const Expected& expected : cases) {
    for (int rank : {0, 1}) {
      auto loader = prepare_data_loader(
          make_data_loader(numbers(expected.samples), {.batch_size = expected.batch_size}),
          {.rank = rank, .world_size = 2, .config = {.even_batches = expected.even}});
      Values sizes;
      for (auto& batch : loader) sizes.push_back(batch.size(0));
      EXPECT_EQ(sizes, expected.sizes[static_cast<std::size_t>(rank)]) << expected.samples;
    }
  }
}

// upstream: test_script.py, dl_preparation_check and central_dl_preparation_check. With and without
// shuffling, split or not, read by all or dealt out: gathered and sorted the samples are all there.
TEST(PreparedLoader, RanksTogetherHaveEverySample) {
  testing::run_ranks_shared(4, [](const std::shared_ptr<Communicator>& group) {
    for (int bits = 0; bits < 8; ++bits) {
      const std::int64_t count = 16 * group->size();
      auto loader = prepare_data_loader(
          make_data_loader(numbers(count),
                           {.batch_size = 8, .shuffle = (bits & 1) != 0, .data_seed = 42}),
          {.rank = group->rank(),
           .world_size = group->size(),
           .config = {.split_batches = (bits & 2) != 0, .dispatch_batches = (bits & 4) != 0},
           .communicator = group});
      const auto mine = torch::tensor(read_all(loader));
      const auto all = std::get<0>(gather(*group, mine).sort());
      EXPECT_TRUE(at::equal(all, torch::arange(count))) << bits;
    }
  });
}

// upstream: test_script.py, rng_sync_check.
TEST(SynchronizeRngStates, RanksDrawWhatRankZeroDraws) {
  testing::run_ranks_shared(2, [](const std::shared_ptr<Communicator>& group) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(7 + group->rank());
    synchronize_rng_states(*group, {RngType::generator, RngType::cuda}, generator);
    const auto drawn = gather(*group, torch::randint(1 << 30, {4}, generator, at::kLong));
    EXPECT_TRUE(at::equal(drawn.slice(0, 0, 4), drawn.slice(0, 4, 8)));
    synchronize_rng_states(*group, {RngType::generator});  // None here: nothing is sent.
  });
}

/// An order from a generator that goes on from epoch to epoch.
struct OwnGenerator : testing::DrawnReader {
  OwnGenerator(std::int64_t count, std::uint64_t seed) : DrawnReader(count) {
    generator.set_current_seed(seed);
  }
  void set_epoch(std::int64_t /*epoch*/) {}
};

// Ranks that draw different orders leave samples out and have others twice.
TEST(PreparedLoader, HandsTheDatasetsGeneratorOfRankZeroToAllWhenAPassBegins) {
  testing::run_ranks_shared(2, [](const std::shared_ptr<Communicator>& group) {
    for (bool synchronised : {true, false}) {
      LoaderContext context{.rank = group->rank(),
                            .world_size = 2,
                            .config = {.dispatch_batches = false},
                            .communicator = group};
      if (!synchronised) context.rng_types = {};
      const auto seed = static_cast<std::uint64_t>(7 + group->rank());
      auto loader =
          prepare_data_loader(make_data_loader(OwnGenerator(16, seed), {.batch_size = 2}), context);
      for (int epoch = 0; epoch < 2; ++epoch) {
        const auto all = gather(*group, torch::tensor(read_all(loader)));
        EXPECT_EQ(at::equal(std::get<0>(all.sort()), torch::arange(16)), synchronised);
      }
    }
  });
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
