// Measures what a progress bar costs a step of a loop: hidden, or shown but not due for drawing.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include "accelerate/base/terminal/progress_bar.h"

namespace {

void update_hidden(benchmark::State& state) {
  accelerate::ProgressBar bar({.disable = true});
  for (auto _ : state) bar.update();
}
BENCHMARK(update_hidden);

void update_shown(benchmark::State& state) {
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  {
    accelerate::ProgressBar bar({.total = 1'000'000'000, .fd = nowhere});
    for (auto _ : state) bar.update();
  }
  close(nowhere);
}
BENCHMARK(update_shown);

}  // namespace
