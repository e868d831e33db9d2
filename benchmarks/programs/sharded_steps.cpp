// Trains a small language model with 27 million weights on the ranks it is launched on, sharded or
// not, as the launcher says. Reports on rank 0 how long blocks of steps took, and how much memory
// the ranks take together. BENCH_BUCKET_CAP_MB: the size of DDP's buckets.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "benchmarks/programs/language_model.h"
#include "benchmarks/programs/measure.h"

namespace {

using bench::kBatchSize, bench::kTokens, bench::kVocabulary, bench::Net;

// Returns this process's share of the memory that it maps. Memory that several processes map is
// divided among them.
double proportional_mib() {
  std::ifstream file("/proc/self/smaps_rollup");
  for (std::string word; file >> word;) {
    double kib = 0;
    if (word == "Pss:" && file >> kib) return kib / 1024;
  }
  throw std::runtime_error("/proc/self/smaps_rollup has no Pss");
}

// Returns the dtype that forwards compute in: a CPU that is slow in 16 bits uses fp32.
std::string computed_in(const accelerate::Accelerator& accelerator) {
  const auto scope = accelerator.autocast();
  const auto one = torch::ones({1, 1});
  return c10::toString(torch::mm(one, one).scalar_type());
}

void run(const bench::TimedBlocks& timed) {
  accelerate::AcceleratorOptions options{.cpu = true};
  if (const char* cap = std::getenv("BENCH_BUCKET_CAP_MB"))
    options.ddp.bucket_cap_mb = std::stod(cap);
  accelerate::Accelerator accelerator(options);
  accelerate::set_seed(42);
  Net net;
  torch::optim::AdamW adam(net->parameters(), torch::optim::AdamWOptions(1e-3));
  auto [model, optimizer] = accelerator.prepare(net, adam);
  torch::manual_seed(100 + accelerator.process_index());
  const auto tokens = torch::randint(kVocabulary, {kBatchSize, kTokens});
  const auto targets = torch::randint(kVocabulary, {kBatchSize * kTokens});
  double loss = 0, mib = 0;
  auto train = [&, &model = model, &optimizer = optimizer](int steps) {
    for (int i = 0; i < steps; ++i) {
      const auto value =
          torch::nn::functional::cross_entropy(model(tokens).view({-1, kVocabulary}), targets);
      accelerator.backward(value);
      if (i + 1 == steps) mib = std::max(mib, proportional_mib());
      optimizer.step();
      optimizer.zero_grad();
      loss = value.item<double>();
    }
  };

  const auto seconds = bench::block_seconds(timed, train);
  const auto together = accelerator.reduce(torch::tensor({mib}));
  const std::string home(model.core()->parallel().inspection->full_parameters());
  if (accelerator.is_main_process()) {
    bench::report({{"block_seconds", seconds},
                   {"ranks", accelerator.num_processes()},
                   {"full_parameters", home},
                   {"computed_in", computed_in(accelerator)},
                   {"loss", loss},
                   {"proportional_mib", together.item<double>()}});
  }
  accelerator.end_training();
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_timed_blocks(argc, argv, run);
}
