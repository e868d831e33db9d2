// Times a prepared optimizer's step and the same step of torch::optim, in turns in one process.
// Each optimizer has its own parameters. Arguments: which optimizer, how many parameters, how many
// times 1024 numbers in each, how many steps to warm up, how many to count.
#include <torch/optim.h>

#include "accelerate/optim/accelerated_optimizer.h"
#include "benchmarks/programs/measure.h"

namespace {

using Leaves = std::vector<at::Tensor>;

Leaves leaves(int count, std::int64_t numel) {
  torch::manual_seed(0);
  Leaves all;
  for (int i = 0; i < count; ++i) {
    all.push_back(torch::randn({numel}).set_requires_grad(true));
    all.back().mutable_grad() = torch::randn({numel});
  }
  return all;
}

// Settings as in originals/optimizer_steps.py.
std::unique_ptr<torch::optim::Optimizer> make(int which, Leaves parameters) {
  using namespace torch::optim;
  constexpr double kRate = 1e-4;
  switch (which) {
    case 0:
      return std::make_unique<AdamW>(std::move(parameters), AdamWOptions(kRate));
    case 1:
      return std::make_unique<Adam>(std::move(parameters), AdamOptions(kRate));
    case 2:
      return std::make_unique<SGD>(std::move(parameters), SGDOptions(kRate).momentum(0.9));
    case 3:
      return std::make_unique<Adagrad>(std::move(parameters), AdagradOptions(kRate));
    default:
      throw std::invalid_argument("optimizers are 0 AdamW, 1 Adam, 2 SGD, 3 Adagrad");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto words =
      bench::numbers(argc, argv, {"WHICH", "COUNT", "THOUSANDS", "WARM_UP", "STEPS"});
  const std::int64_t numel = std::int64_t{1024} * words[2];
  const auto ours = make(words[0], leaves(words[1], numel));
  const auto own = make(words[0], leaves(words[1], numel));
  // Made as prepare() makes it, but without an Accelerator: its heap (base/heap.h) would also speed
  // up the temporaries of torch::optim.
  accelerate::AcceleratedOptimizer prepared(*ours, std::make_shared<accelerate::GradientState>());
  std::vector<double> accelerated_seconds, plain_seconds;
  for (int i = 0; i < words[3] + words[4]; ++i) {
    const double mine = bench::seconds_of([&] { prepared.step(); });
    const double plain = bench::seconds_of([&] { own->step(); });
    if (i < words[3]) continue;
    accelerated_seconds.push_back(mine);
    plain_seconds.push_back(plain);
  }
  bench::report({{"accelerated_seconds", accelerated_seconds}, {"plain_seconds", plain_seconds}});
}
