// The random generators: their seeds and their states.
#pragma once

#include <cstdint>

#include "accelerate/tensor/checked_state.h"
#include "accelerate/tensor/state_dict.h"

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

/// Where the default generators of this rank are: {"cpu": uint8 [5056]}, and with GPUs {"cuda": a
/// list of uint8 [16]}. The bytes are those of Python's torch.get_rng_state(). Local.
[[nodiscard]] StateDict rng_state();

/// Puts the generators where rng_state() found them. States of GPUs that are not here are left out.
/// Local. Throws CheckpointError for what is no state, and c10::Error for one that LibTorch finds
/// wrong, and then changes nothing.
void set_rng_state(const StateDict& state);
/// The same in two steps: throws what set_rng_state(state) would, and returns what sets it.
[[nodiscard]] CheckedState check_rng_state(const StateDict& state);

}  // namespace accelerate
