// Measures what a rank's order costs: a permutation each epoch, and the indices of its share each
// step.
#include <benchmark/benchmark.h>

#include "accelerate/data/batch_sampler_shard.h"

namespace {

using namespace accelerate;

void permutation(benchmark::State& state) {
  const SeedableRandomSampler sampler(static_cast<std::size_t>(state.range(0)), 42);
  for (auto _ : state) benchmark::DoNotOptimize(sampler.order());
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(permutation)->Arg(60'000)->Arg(1'000'000);

void shard_of_a_batch(benchmark::State& state) {
  constexpr std::int64_t kBatchSize = 32;
  const SampleOrder order = SeedableRandomSampler(60'000, 42).order();
  const BatchSamplerShard shard(BatchSampler(order, kBatchSize),
                                {.num_shards = static_cast<int>(state.range(0)), .shard_index = 0});
  std::size_t position = 0;
  for (auto _ : state) benchmark::DoNotOptimize(shard.batch(position++ % shard.size()));
  state.SetItemsProcessed(state.iterations() * kBatchSize);
}
BENCHMARK(shard_of_a_batch)->Arg(1)->Arg(2)->Arg(8);

}  // namespace
