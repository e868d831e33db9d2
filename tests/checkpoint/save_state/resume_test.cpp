// A training that is cut and resumed goes on as if nothing had happened.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

#include "accelerate/accelerate.h"
#include "tests/checkpoint/save_state/saved_count.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::kFolder;

using testing::run_ranks_shared;
using testing::TemporaryFolder;
using Path = std::filesystem::path;

constexpr int kEpochs = 2;

struct ResumeNetImpl : torch::nn::Module {
  ResumeNetImpl(double dropout, bool batch_norm) : drop(dropout), batch_norm(batch_norm) {
    in = register_module("in", torch::nn::Linear(4, 8));
    if (batch_norm) norm = register_module("norm", torch::nn::BatchNorm1d(8));
    drop = register_module("drop", torch::nn::Dropout(dropout));
    out = register_module("out", torch::nn::Linear(8, 1));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto hidden = torch::tanh(in(x));
    return out(drop(batch_norm ? norm(hidden) : hidden));
  }
  torch::nn::Linear in{nullptr}, out{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout drop;
  bool batch_norm;
};
TORCH_MODULE(ResumeNet);

struct Counter {
  std::int64_t batches = 0;
  [[nodiscard]] StateDict state_dict() const { return {{"batches", batches}}; }
  void load_state_dict(const StateDict& state) { batches = state.at("batches").to<std::int64_t>(); }
};

std::pair<at::Tensor, at::Tensor> samples() {
  const auto x = torch::sin(torch::arange(96, at::kFloat) * 0.7).view({24, 4});
  return {x, x.sum(1, /*keepdim=*/true)};
}

// What a run is like, and where it is cut.
struct Plan {
  MixedPrecision precision = MixedPrecision::no;
  int accumulation = 1;
  double dropout = 0.5;
  bool batch_norm = true;
  int workers = 0;
  std::int64_t batch_size = 3;
  bool split_batches = false;
  std::optional<int> save_after = {};  ///< Batches; the run ends there.
  Path folder = {};
  bool resume = false;
  bool sharded = false;  ///< How it is saved.
  std::shared_ptr<Communicator> ranks = nullptr;
};

struct Trace {
  std::map<std::int64_t, double> losses;             ///< By batch, counted over the epochs.
  std::map<std::int64_t, std::vector<double>> seen;  ///< First features of this rank's samples.
  std::vector<at::Tensor> weights;
};

Trace train(const Plan& run) {
  Accelerator accelerator({.gradient_accumulation_steps = run.accumulation,
                           .mixed_precision = run.precision,
                           .grad_scaler = {.init_scale = 1024, .growth_interval = 3},
                           .dataloader_config = {.split_batches = run.split_batches},
                           .communicator = run.ranks});
  if (!run.ranks || run.ranks->size() == 1)
    set_seed(run.resume ? 999 : 7, {.device_specific = true});
  ResumeNet net(run.dropout, run.batch_norm);
  {
    torch::NoGradGuard no_grad;
    for (auto& parameter : net->parameters())
      parameter.copy_(torch::cos(torch::arange(parameter.numel())).view_as(parameter) * 0.5);
  }
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.05));
  auto cosine = get_scheduler("cosine", adamw, {.num_warmup_steps = 2, .num_training_steps = 20});
  auto batches = make_data_loader(
      samples(),
      {.batch_size = run.batch_size, .shuffle = true, .num_workers = run.workers, .data_seed = 5});
  auto [model, optimizer, loader, schedule] = accelerator.prepare(net, adamw, batches, cosine);
  Counter counter;
  accelerator.register_for_checkpointing(counter);
  if (run.resume) accelerator.load_state(run.folder);

  Trace trace;
  for (auto epoch = loader.epoch(); epoch < kEpochs; ++epoch) {
    for (auto& [x, y] : loader) {
      auto window = accelerator.accumulate(model);
      const auto loss = torch::mse_loss(model(x), y);
      accelerator.backward(loss);
      if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), 1.0);
      optimizer.step();
      schedule.step();
      optimizer.zero_grad();
      trace.losses[counter.batches] = loss.item<double>();
      for (std::int64_t i = 0; i < x.size(0); ++i)
        trace.seen[counter.batches].push_back(x[i][0].item<double>());
      if (run.save_after && ++counter.batches == *run.save_after) {
        accelerator.save_state(run.folder, {.sharded = run.sharded});
        return trace;
      }
      if (!run.save_after) ++counter.batches;
    }
  }
  for (const auto& [name, tensor] : state_dict(model.core()->view()))
    trace.weights.push_back(tensor.clone());
  return trace;
}

void expect_same_rest(const Trace& whole, const Trace& rest, const std::string& what) {
  for (const auto& [batch, loss] : rest.losses)
    EXPECT_EQ(loss, whole.losses.at(batch)) << what << ", batch " << batch;
  ASSERT_EQ(rest.weights.size(), whole.weights.size());
  for (std::size_t i = 0; i < rest.weights.size(); ++i)
    EXPECT_TRUE(torch::equal(rest.weights[i], whole.weights[i])) << what << ", tensor " << i;
}

struct Kind {
  const char* name;
  Plan run;
};

class Resume : public ::testing::TestWithParam<Kind> {};

// Shuffling, dropout, running statistics, clipping, a schedule; cut after every batch, inside
// accumulation windows too.
TEST_P(Resume, AfterAnyBatchIsBitwiseTheUncutRun) {
  Plan run = GetParam().run;
  run.ranks = single_communicator();
  const Trace whole = train(run);
  ASSERT_EQ(whole.losses.size(), 16U);
  const TemporaryFolder home;
  run.folder = home.path() / "state";
  for (int cut = 1; cut < 16; ++cut) {
    Plan first = run, second = run;
    first.save_after = cut;
    second.resume = true;
    second.workers = cut % 3;
    train(first);
    const Trace rest = train(second);
    EXPECT_EQ(rest.losses.size(), static_cast<std::size_t>(16 - cut));
    expect_same_rest(whole, rest,
                     GetParam().name + std::string(" cut after ") + std::to_string(cut));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Resume,
    ::testing::Values(Kind{"fp32", {}}, Kind{"fp16", {.precision = MixedPrecision::fp16}},
                      Kind{"bf16", {.precision = MixedPrecision::bf16}},
                      Kind{"accumulation", {.accumulation = 3}},
                      Kind{"fp16 accumulation",
                           {.precision = MixedPrecision::fp16, .accumulation = 4, .workers = 2}},
                      Kind{"shards", {.accumulation = 3, .sharded = true}}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

// --- Ranks that are processes, each with random numbers of its own
// ---------------------------------

constexpr const char* kCut = "ACCELERATE_TEST_CUT";

// "save 3", "resume 3" or nothing; prints the losses of this rank to the last bit.
RANK_MAIN(train_to_or_from_a_cut) {
  const std::string cut = std::getenv(kCut);
  Plan run{.precision = MixedPrecision::fp16, .accumulation = 2, .folder = std::getenv(kFolder)};
  if (cut.starts_with("save")) run.save_after = std::atoi(cut.c_str() + 4);
  run.resume = cut.starts_with("resume");
  const Trace trace = train(run);
  for (const auto& [batch, loss] : trace.losses)
    std::printf("%lld %a\n", static_cast<long long>(batch), loss);
  for (const auto& tensor : trace.weights)
    std::printf("%a\n", tensor.to(at::kDouble).pow(2).sum().item<double>());
  return 0;
}

std::vector<std::string> on_two_processes(const Path& folder, const std::string& cut) {
  std::vector<std::string> out;
  for (const auto& rank : testing::run_processes(2, "train_to_or_from_a_cut",
                                                 {.env = {{kFolder, folder}, {kCut, cut}}})) {
    EXPECT_EQ(rank.exit_code, 0) << cut << ", rank " << rank.rank << ": " << rank.err;
    out.push_back(rank.out);
  }
  return out;
}

TEST(ResumeOfProcesses, IsBitwiseTheUncutRunWithEachRanksRandomNumbers) {
  const TemporaryFolder home;
  const auto whole = on_two_processes(home.path(), "none");
  EXPECT_NE(whole[0], whole[1]) << "else the ranks draw the same numbers";
  for (const char* cut : {"1", "4", "6"}) {
    const auto first = on_two_processes(home.path(), std::string("save ") + cut);
    const auto rest = on_two_processes(home.path(), std::string("resume ") + cut);
    for (std::size_t rank = 0; rank < 2; ++rank)
      EXPECT_EQ(first[rank] + rest[rank], whole[rank]) << "cut after " << cut << ", rank " << rank;
  }
}

struct Worlds {
  int before, after;
  bool sharded = false;
};

class ResumeOnOthers : public ::testing::TestWithParam<Worlds> {};

// split_batches keeps the number of samples in a step. Every sample is seen once an epoch.
TEST_P(ResumeOnOthers, GoesOnToToleranceAndSeesEverySampleOnce) {
  Plan run{.dropout = 0.0, .batch_norm = false, .batch_size = 12, .split_batches = true};
  run.ranks = single_communicator();
  const Trace whole = train(run);
  const TemporaryFolder home;
  for (int cut = 1; cut < 4; ++cut) {
    run.folder = home.path() / ("state_" + std::to_string(cut));
    std::mutex mutex;
    std::map<std::int64_t, std::vector<double>> seen;
    std::vector<at::Tensor> weights;
    const auto on_ranks = [&](int n, Plan part) {
      run_ranks_shared(n, [&](const std::shared_ptr<Communicator>& ranks) {
        Plan mine = part;
        mine.ranks = ranks;
        const Trace trace = train(mine);
        const std::lock_guard lock(mutex);
        for (const auto& [batch, values] : trace.seen)
          seen[batch].insert(seen[batch].end(), values.begin(), values.end());
        if (ranks->rank() == 0) weights = trace.weights;
      });
    };
    Plan first = run, second = run;
    first.save_after = cut;
    first.sharded = GetParam().sharded;
    second.resume = true;
    on_ranks(GetParam().before, first);
    on_ranks(GetParam().after, second);
    ASSERT_EQ(seen.size(), 4U);
    for (auto& [batch, values] : seen) {
      auto expected = whole.seen.at(batch);
      std::ranges::sort(values);
      std::ranges::sort(expected);
      EXPECT_EQ(values, expected) << "batch " << batch;
    }
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_TRUE(torch::allclose(weights[i], whole.weights[i], 1e-4, 1e-5)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ResumeOnOthers,
                         ::testing::Values(Worlds{2, 1}, Worlds{2, 3}, Worlds{4, 2}, Worlds{1, 2},
                                           Worlds{2, 2}, Worlds{2, 1, true}, Worlds{2, 3, true},
                                           Worlds{4, 2, true}));

}  // namespace
}  // namespace accelerate
