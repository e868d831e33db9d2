// What should_stop() costs a step: the least of 20 rounds of 1,000 calls, in microseconds a call.
//   accelerate launch --cpu --num_processes 2 build/release/benchmarks/micro_should_stop
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "accelerate/accelerate.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 20;
constexpr int kCalls = 1000;

// Returns microseconds a call.
double round_of(accelerate::Accelerator& accelerator) {
  const auto start = Clock::now();
  for (int i = 0; i < kCalls; ++i)
    if (accelerator.should_stop()) std::exit(accelerator.stop_code());
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / kCalls;
}

}  // namespace

int main() {
  accelerate::Accelerator accelerator({.cpu = true});
  double least = round_of(accelerator);
  for (int i = 1; i < kRounds; ++i) least = std::min(least, round_of(accelerator));
  if (accelerator.is_main_process())
    std::printf("%d ranks: %.2f us a call\n", accelerator.num_processes(), least);
  accelerator.end_training();
}
