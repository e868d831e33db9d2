// Times the steps of sharded_steps in one process, unsharded. Steps with and without the watch over
// operators take turns; with that watch units are gathered on first touch.
#include <accelerate/accelerate.h>
#include <accelerate/tensor/compat/lent_storage.h>
#include <torch/torch.h>

#include <optional>

#include "benchmarks/programs/language_model.h"
#include "benchmarks/programs/measure.h"

namespace {

using bench::kBatchSize, bench::kTokens, bench::kVocabulary, bench::Net;

void run(int warm_up_steps, int steps) {
  accelerate::Accelerator accelerator({.cpu = true});
  accelerate::set_seed(42);
  Net net;
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-3));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  const auto tokens = torch::randint(kVocabulary, {kBatchSize, kTokens});
  const auto targets = torch::randint(kVocabulary, {kBatchSize * kTokens});
  const auto step = [&, &model = model, &optimizer = optimizer] {
    accelerator.backward(
        torch::nn::functional::cross_entropy(model(tokens).view({-1, kVocabulary}), targets));
    optimizer.step();
    optimizer.zero_grad();
  };
  const auto watched = [&] {
    const accelerate::compat::OperatorWatch watch;
    step();
  };
  for (int i = 0; i < warm_up_steps; ++i) i % 2 == 0 ? step() : watched();
  std::vector<double> plain_seconds, watched_seconds;
  for (int i = 0; i < steps; ++i) {
    if (i % 2 == 0) plain_seconds.push_back(bench::seconds_of(step));
    watched_seconds.push_back(bench::seconds_of(watched));
    if (i % 2 == 1) plain_seconds.push_back(bench::seconds_of(step));
  }
  bench::report({{"plain_seconds", plain_seconds}, {"accelerated_seconds", watched_seconds}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_numbers(
      argc, argv, {"WARM_UP_STEPS", "STEPS"},
      [](const std::vector<int>& numbers) { run(numbers[0], numbers[1]); });
}
