// Measures how many bytes of weights a second a product of a few rows reads, in LibTorch's version
// and in ours, and the share of what the machine can read. The weights, 113 or 57 MB, come from
// memory. Reads of a buffer alternate with the products, and of both the fastest counts, because
// other programs take bandwidth too.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>

#include "accelerate/transformers/models/layers/linear.h"
#include "benchmarks/programs/stream_read.h"

namespace {

constexpr std::int64_t kIn = 576, kOut = 49152;

at::Tensor by_libtorch(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias) {
  return at::linear(input, weight, bias);
}

// Arguments: rows, threads.
void product(benchmark::State& state, decltype(&by_libtorch) multiply, at::ScalarType type) {
  const c10::InferenceMode inference;
  at::set_num_threads(static_cast<int>(state.range(1)));
  const at::Tensor input = at::randn({state.range(0), kIn}).to(type);
  const std::size_t bytes = kOut * kIn * input.element_size();
  bench::StreamRead stream(bytes);
  double best = 0, bound = 0;
  for (auto _ : state) {
    bound = stream.bytes_per_second();
    const at::Tensor weight = stream.next_part().view(type).view({kOut, kIn});
    const double seconds =
        bench::seconds_of([&] { benchmark::DoNotOptimize(multiply(input, weight, {})); });
    best = std::max(best, static_cast<double>(bytes) / seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["GB/s"] = best / 1e9;
  state.counters["stream GB/s"] = bound / 1e9;
  state.counters["share"] = best / bound;
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"rows", "threads"})->ArgsProduct({{1, 2, 4, 8}, {1, 2}});
  bench->UseManualTime()->Iterations(100);
}

BENCHMARK_CAPTURE(product, libtorch_fp32, by_libtorch, at::kFloat)->Apply(sizes);
BENCHMARK_CAPTURE(product, ours_fp32, accelerate::detail::linear_of_few_rows, at::kFloat)
    ->Apply(sizes);
BENCHMARK_CAPTURE(product, libtorch_bf16, by_libtorch, at::kBFloat16)->Apply(sizes);
BENCHMARK_CAPTURE(product, ours_bf16, accelerate::detail::linear_of_few_rows, at::kBFloat16)
    ->Apply(sizes);

}  // namespace
