// What the layers that see operators cost an operator: docs/decisions/interception.md. The operator
// adds two tensors of one element each.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/ones.h>
#include <benchmark/benchmark.h>

#include "accelerate/parallel/recompute/recompute.h"
#include "accelerate/tensor/compat/interception.h"
#include "accelerate/tensor/compat/lent_storage.h"

namespace accelerate {
namespace {

const at::Tensor& one() {
  static const at::Tensor tensor = at::ones({1});
  return tensor;
}

void time_adds(benchmark::State& state) {
  const at::Tensor x = one();
  for (auto _ : state) benchmark::DoNotOptimize(at::add(x, x));
}

class Passing final : public compat::Interceptor {
 public:
  void intercept(const compat::InterceptedCall& call) override { call.proceed(); }
};

void without_layers(benchmark::State& state) {
  time_adds(state);
}
BENCHMARK(without_layers);

void in_a_layer_that_passes(benchmark::State& state) {
  Passing passing;
  const compat::InterceptionScope scope(compat::Layer::recompute, passing);
  time_adds(state);
}
BENCHMARK(in_a_layer_that_passes);

void watched(benchmark::State& state) {
  const compat::OperatorWatch watch;
  time_adds(state);
}
BENCHMARK(watched);

// A record of many operators, in forward alone.
void recorded(benchmark::State& state) {
  const at::Tensor x = one();
  constexpr int kOperators = 200;
  for (auto _ : state) {
    const detail::RecomputeScope scope("the benchmark");
    for (int i = 0; i < kOperators; ++i) benchmark::DoNotOptimize(at::add(x, x));
  }
  state.counters["an operator"] = benchmark::Counter(
      kOperators, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(recorded);

}  // namespace
}  // namespace accelerate
