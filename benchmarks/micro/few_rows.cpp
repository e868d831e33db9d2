// Measures how many bytes of weights a second a product of a few rows reads, in LibTorch's version
// and in ours. The weights, 113 MB, come from memory.
#include <ATen/Context.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include "accelerate/transformers/models/layers/linear.h"

namespace {

constexpr std::int64_t kIn = 576, kOut = 49152;

template <typename Product>
void run(benchmark::State& state, Product&& product) {
  const c10::InferenceMode inference;
  const at::Tensor weight = at::randn({kOut, kIn}), input = at::randn({state.range(0), kIn});
  for (auto _ : state) benchmark::DoNotOptimize(product(input, weight, at::Tensor()));
  state.SetBytesProcessed(state.iterations() * kIn * kOut *
                          static_cast<std::int64_t>(sizeof(float)));
}

void libtorch(benchmark::State& state) {
  run(state, [](const auto& input, const auto& weight, const auto& bias) {
    return at::linear(input, weight, bias);
  });
}
void ours(benchmark::State& state) {
  run(state, accelerate::detail::linear_of_few_rows);
}

BENCHMARK(libtorch)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->UseRealTime();
BENCHMARK(ours)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->UseRealTime();

}  // namespace
