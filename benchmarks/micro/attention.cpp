// Attention of sequences of one length, forward and backward: by LibTorch's kernel and by ours, on a
// CPU.
//
//   build/release/benchmarks/micro_attention --benchmark_filter=bfloat16
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <torch/torch.h>

#include <cmath>
#include <vector>

#include "accelerate/transformers/models/layers/packed_attention.h"

namespace {

using accelerate::detail::packed_attention;
using accelerate::detail::PackedAttention;

struct Operands {
  std::vector<at::Tensor> tensors;  // {tokens, heads, dim}: queries, keys, values.
  std::int64_t count, length;
  PackedAttention spec;
};

// Arguments: sequences, their length, heads, dim, whether causal, dropout in percent, threads.
Operands operands_of(const benchmark::State& state, at::ScalarType type) {
  const auto count = state.range(0), length = state.range(1), dim = state.range(3);
  at::set_num_threads(static_cast<int>(state.range(6)));
  Operands all{{}, count, length, {}};
  for (int i = 0; i < 3; ++i)
    all.tensors.push_back(
        torch::randn({count * length, state.range(2), dim}, type).requires_grad_());
  const auto tokens = static_cast<unsigned long>(length);
  for (unsigned long first = 0; all.spec.sequences.size() < static_cast<std::size_t>(count);
       first += tokens)
    all.spec.sequences.push_back({first, tokens, first, tokens});
  all.spec.scale = 1 / std::sqrt(static_cast<double>(dim));
  all.spec.is_causal = state.range(4) != 0;
  all.spec.dropout = static_cast<double>(state.range(5)) / 100;
  return all;
}

at::Tensor by_libtorch(const Operands& all) {
  const auto rows = [&](int i) {
    return all.tensors[static_cast<std::size_t>(i)]
        .unflatten(0, {all.count, all.length})
        .transpose(1, 2);
  };
  return at::scaled_dot_product_attention(rows(0), rows(1), rows(2), {}, all.spec.dropout,
                                          all.spec.is_causal, all.spec.scale)
      .transpose(1, 2)
      .flatten(0, 1);
}

at::Tensor by_us(const Operands& all) {
  return packed_attention(all.tensors[0], all.tensors[1], all.tensors[2], all.spec);
}

void step(benchmark::State& state, at::Tensor (*attend)(const Operands&), at::ScalarType type) {
  const Operands all = operands_of(state, type);
  const at::Tensor by = torch::randn(all.tensors[0].sizes(), type);
  for (auto _ : state)
    benchmark::DoNotOptimize(torch::autograd::grad({attend(all)}, all.tensors, {by}));
}

void shapes(benchmark::internal::Benchmark* bench) {
  bench->ArgNames({"sequences", "length", "heads", "dim", "causal", "dropout", "threads"})
      ->UseRealTime();
  for (const int threads : {1, 2}) {
    for (const int dropout : {0, 10}) bench->Args({16, 46, 12, 32, 0, dropout, threads});
    bench->Args({4, 128, 12, 64, 1, 0, threads})->Args({4, 128, 12, 64, 1, 10, threads});
    bench->Args({1, 512, 12, 64, 1, 0, threads})->Args({1, 2048, 12, 64, 1, 0, threads});
    bench->Args({1, 8192, 2, 64, 1, 0, threads});
  }
}

BENCHMARK_CAPTURE(step, libtorch_float32, by_libtorch, at::kFloat)->Apply(shapes);
BENCHMARK_CAPTURE(step, ours_float32, by_us, at::kFloat)->Apply(shapes);
BENCHMARK_CAPTURE(step, libtorch_bfloat16, by_libtorch, at::kBFloat16)->Apply(shapes);
BENCHMARK_CAPTURE(step, ours_bfloat16, by_us, at::kBFloat16)->Apply(shapes);

}  // namespace
