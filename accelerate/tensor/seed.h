// Seeds of the random generators.
#pragma once

#include <cstdint>

namespace accelerate {

struct SeedOptions {
  bool device_specific = false;  ///< Adds the rank, so that ranks draw different numbers.
  bool deterministic = false;    ///< Also asks LibTorch for deterministic algorithms.
};

/// Seeds the CPU generator and those of all GPUs: the numbers drawn are Python's after
/// set_seed(seed). Local; call it on every rank. Source: `set_seed` of Hugging Face Accelerate.
void set_seed(std::uint64_t seed, const SeedOptions& options = {});

/// The seed of the default CPU generator, as torch.initial_seed().
[[nodiscard]] std::uint64_t initial_seed();

}  // namespace accelerate
