// Joins the group, sums a tensor over the ranks once, and reports on rank 0 when that was done.
#include <ATen/ops/ones.h>
#include <accelerate/accelerate.h>

#include <cstdio>
#include <exception>

#include "benchmarks/programs/measure.h"

int main() try {
  accelerate::Accelerator accelerator({.cpu = true});
  const at::Tensor sum = accelerator.reduce(at::ones({1}));
  const std::int64_t finished = bench::wall_clock_ns();
  const int ranks = accelerator.num_processes();
  if (sum.item<float>() != static_cast<float>(ranks)) {
    throw std::runtime_error("the sum over the ranks is wrong");
  }
  if (accelerator.is_main_process()) bench::report({{"finished_ns", finished}, {"ranks", ranks}});
  accelerator.end_training();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_first_collective: %s\n", error.what());
  return 1;
}
