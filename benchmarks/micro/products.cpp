// fp32 products of a linear layer by MKL and by oneDNN, as LibTorch holds both: forward, and the two
// of backward. docs/decisions/who_multiplies.md has what the rule of matrix_products.cpp stands on.
//
//   ACCELERATE_CPU_MATMUL=onednn build/release/benchmarks/micro_products
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include "accelerate/tensor/compat/matrix_products.h"

namespace {

using accelerate::compat::MatrixProducts;

enum Layer { forward, input_gradient, weight_gradient };

at::Tensor product(Layer layer, const at::Tensor& x, const at::Tensor& weight,
                   const at::Tensor& gradient) {
  switch (layer) {
    case forward:
      return at::mm(x, weight.t());
    case input_gradient:
      return at::mm(gradient, weight);
    default:
      return at::mm(gradient.t(), x);
  }
}

// Arguments: tokens, width of the input, width of the output, threads.
void linear(benchmark::State& state, Layer layer, bool by_rule) {
  const auto tokens = state.range(0), in = state.range(1), out = state.range(2);
  at::set_num_threads(static_cast<int>(state.range(3)));
  const auto x = torch::randn({tokens, in}), weight = torch::randn({out, in}),
             gradient = torch::randn({tokens, out});
  const MatrixProducts products(by_rule);
  for (auto _ : state) benchmark::DoNotOptimize(product(layer, x, weight, gradient));
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * static_cast<double>(tokens * in * out),
                                                 benchmark::Counter::kIsIterationInvariantRate);
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"tokens", "in", "out", "threads"})->UseRealTime();
  for (const int threads : {1, 2}) {
    bench->Args({64, 64, 64, threads})->Args({128, 128, 128, threads});
    bench->Args({739, 384, 384, threads})->Args({739, 384, 1536, threads});
    bench->Args({2048, 768, 3072, threads});
  }
}

BENCHMARK_CAPTURE(linear, forward_mkl, forward, false)->Apply(shapes);
BENCHMARK_CAPTURE(linear, forward_chosen, forward, true)->Apply(shapes);
BENCHMARK_CAPTURE(linear, input_gradient_mkl, input_gradient, false)->Apply(shapes);
BENCHMARK_CAPTURE(linear, input_gradient_chosen, input_gradient, true)->Apply(shapes);
BENCHMARK_CAPTURE(linear, weight_gradient_mkl, weight_gradient, false)->Apply(shapes);
BENCHMARK_CAPTURE(linear, weight_gradient_chosen, weight_gradient, true)->Apply(shapes);

}  // namespace
