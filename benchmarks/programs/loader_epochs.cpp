// Iterates over 60,000 shuffled images of 28×28 bytes in memory, in batches of 64, and reports how
// long each epoch took. The loader is make_data_loader's alone, or as an Accelerator prepares it.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include "benchmarks/programs/measure.h"

namespace {

constexpr std::int64_t kSamples = 60'000;

auto images() {
  return torch::data::Example<>(torch::randint(256, {kSamples, 1, 28, 28}, torch::kByte),
                                torch::randint(10, {kSamples}, torch::kLong));
}

template <typename Loader>
double epoch_seconds(const Loader& loader) {
  std::int64_t samples = 0;
  const double seconds = bench::seconds_of([&] {
    for (auto& batch : loader) samples += batch.target.size(0);
  });
  if (samples != kSamples) throw std::runtime_error("an epoch of the wrong length");
  return seconds;
}

void run(int epochs, int workers, bool prepared) {
  torch::manual_seed(42);
  auto plain = accelerate::make_data_loader(
      images(), {.batch_size = 64, .shuffle = true, .num_workers = workers});
  std::vector<double> seconds;
  if (prepared) {
    accelerate::Accelerator accelerator({.cpu = true});
    auto loader = accelerator.prepare(plain);
    for (int i = 0; i < epochs; ++i) seconds.push_back(epoch_seconds(loader));
  } else {
    for (int i = 0; i < epochs; ++i) seconds.push_back(epoch_seconds(plain));
  }
  bench::report({{"epoch_seconds", seconds}, {"samples", kSamples}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_numbers(
      argc, argv, {"EPOCHS", "WORKERS", "PREPARED"},
      [](const std::vector<int>& numbers) { run(numbers[0], numbers[1], numbers[2] != 0); });
}
