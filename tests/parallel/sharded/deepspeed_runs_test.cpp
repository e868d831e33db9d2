// Whole trainings by DeepSpeed's files, beside losses, rates and loss scales of DeepSpeed itself.
// tests/reference/deepspeed_live.py wrote them, and runs this suite with others.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/optim/deepspeed_dummies.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using testing::run_ranks_shared;

// Values between -1 and 1, as the script's.
at::Tensor values(at::IntArrayRef shape, double phase) {
  const std::int64_t count = c10::multiply_integers(shape);
  return torch::sin(torch::arange(count, at::kDouble) * 1.7 + phase).view(shape);
}

at::ScalarType dtype_of(const Json& run) {
  if (run["file"].contains("bf16")) return at::kBFloat16;
  return run["file"].contains("fp16") ? at::kHalf : at::kFloat;
}

// Weights that the dtype can hold: DeepSpeed rounds the optimizer's copies too.
torch::nn::Sequential network_of(const Json& run) {
  const torch::NoGradGuard no_grad;
  const at::ScalarType dtype = dtype_of(run);
  const auto sizes = run["sizes"].get<std::vector<std::int64_t>>();
  torch::nn::Sequential net;
  for (std::size_t k = 0; k + 1 < sizes.size(); ++k) {
    torch::nn::Linear layer(sizes[k], sizes[k + 1]);
    const double phase = run["seed"].get<double>() + static_cast<double>(k);
    layer->weight.copy_((values(layer->weight.sizes(), phase) * 0.6).to(dtype));
    layer->bias.copy_((values(layer->bias.sizes(), phase + 0.5) * 0.1).to(dtype));
    if (k > 0) net->push_back(torch::nn::Tanh());
    net->push_back(layer);
  }
  return net;
}

struct Record {
  std::vector<double> losses, rates, scales;
};

// One run, as one rank sees it.
class Training {
 public:
  Training(const Json& run, const std::shared_ptr<Communicator>& comm)
      : run_(run),
        accelerator_({.deepspeed_plugin = DeepSpeedPlugin{.hf_ds_config = run["file"].dump()},
                      .communicator = comm}) {}

  Record train() {
    auto net = network_of(run_);
    DummyOptim dummy(net->parameters(),
                     {.lr = run_["rate"], .weight_decay = run_["weight_decay"].get<double>()});
    auto [model, optimizer] = accelerator_.prepare(net, dummy);
    std::optional<AcceleratedScheduler> scheduler;
    if (run_["file"].contains("scheduler")) {
      const std::int64_t steps = run_["steps"].get<std::int64_t>() * accelerator_.num_processes();
      scheduler = accelerator_.prepare(std::make_shared<DummyScheduler>(
          dummy,
          DummySchedulerOptions{.total_num_steps = steps, .warmup_num_steps = run_["warmup"]}));
    }
    const int accumulation = accelerator_.gradient_accumulation_steps();
    for (int micro = 0; micro < run_["steps"].get<int>() * accumulation; ++micro) {
      if (micro % accumulation == 0)
        record_.rates.push_back(optimizer.optimizer().param_groups()[0].options().get_lr());
      take(model, optimizer, micro);
      if (scheduler) scheduler->step();
      if (accelerator_.scaler() && (micro + 1) % accumulation == 0)
        record_.scales.push_back(accelerator_.scaler()->get_scale());
    }
    return record_;
  }

 private:
  template <typename Model>
  void take(Model& model, AcceleratedOptimizer& optimizer, int micro) {
    auto window = accelerator_.accumulate(model);
    const auto sizes = run_["sizes"].get<std::vector<std::int64_t>>();
    const double seed = run_["seed"];
    const auto loss = (model(batch(sizes.front(), seed + micro)).to(at::kFloat) -
                       batch(sizes.back(), seed - micro) * 2)
                          .square()
                          .mean();
    record_.losses.push_back(loss.template item<double>());
    accelerator_.backward(overflows(micro) ? loss * 1e30 : loss);
    optimizer.step();
    optimizer.zero_grad();
  }

  at::Tensor batch(std::int64_t width, double phase) const {
    return values({accelerator_.num_processes(), run_["rows"].get<std::int64_t>(), width}, phase)
        .select(0, accelerator_.process_index())
        .to(at::kFloat);
  }

  bool overflows(int micro) const {
    const auto steps = run_["overflows"].get<std::vector<int>>();
    const int step = micro / accelerator_.gradient_accumulation_steps();
    return std::find(steps.begin(), steps.end(), step) != steps.end();
  }

  const Json& run_;
  Accelerator accelerator_;
  Record record_;
};

double most_apart(const std::vector<double>& left, const std::vector<double>& right) {
  if (left.size() != right.size()) return HUGE_VAL;
  double most = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    most = std::max(most, std::isfinite(left[i]) ? std::abs(left[i] - right[i]) : HUGE_VAL);
  return most;
}

// Both compute the same numbers in 16 bits, but add them up in another order. So weights differ by
// roundings, and losses by a few of them: a rounding of a loss in fp16 is 5e-4 of it.
double allowance_of(const Json& run, const std::vector<double>& losses) {
  const double largest = std::max(1.0, *std::ranges::max_element(losses));
  if (dtype_of(run) == at::kBFloat16) return 2e-2;
  return dtype_of(run) == at::kHalf ? 2e-3 * largest : 1e-5;
}

void expect_same(const Json& run, const Record& found, std::size_t rank) {
  const auto losses = run["losses"][rank].get<std::vector<double>>();
  EXPECT_LE(most_apart(found.losses, losses), allowance_of(run, losses)) << run["name"];
  EXPECT_LE(most_apart(found.rates, run["rates"]), 1e-15) << run["name"];
  EXPECT_EQ(found.scales, run["scales"].get<std::vector<double>>()) << run["name"];
}

TEST(DeepSpeedRuns, TrainAsDeepSpeed) {
  const testing::LogCapture log;
  const testing::ScopedEnv sixteen_bits("ACCELERATE_CPU_HALF", "native");
  const Json runs = Json::parse(testing::read_reference("deepspeed_runs.json"));
  ASSERT_FALSE(runs.empty());
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    for (const Json& run : runs)
      expect_same(run, Training(run, comm).train(), static_cast<std::size_t>(comm->rank()));
  });
}

}  // namespace
}  // namespace accelerate
