// Seeds and states of the random generators.
#pragma once

#include <cstdint>

#include "accelerate/tensor/checked_state.h"
#include "accelerate/tensor/state_dict.h"

namespace accelerate {

struct SeedOptions {
  bool device_specific = false;  ///< Adds the rank to the seed, so ranks draw different numbers.
  bool deterministic = false;    ///< Also asks LibTorch for deterministic algorithms.
};

/// Seeds the CPU generator and the generators of all GPUs. They then draw the same numbers as
/// Python after set_seed(seed). Local; call it on every rank. Source: `set_seed` of Hugging Face
/// Accelerate.
void set_seed(std::uint64_t seed, const SeedOptions& options = {});

/// Returns the seed of the default CPU generator, as torch.initial_seed().
[[nodiscard]] std::uint64_t initial_seed();

/// Returns the states of this rank's default generators: {"cpu": uint8 [5056]}, and with GPUs
/// {"cuda": a list of uint8 [16]}. The bytes equal those of Python's torch.get_rng_state(). Local.
[[nodiscard]] StateDict rng_state();

/// Restores the states that rng_state() returned. Ignores states of GPUs that this machine lacks.
/// Local. Throws CheckpointError for a value that is not such a state, c10::Error for a state that
/// LibTorch rejects. Then nothing has changed.
void set_rng_state(const StateDict& state);
/// The same in two steps: throws what set_rng_state(state) would throw, and returns the step that
/// sets the states.
[[nodiscard]] CheckedState check_rng_state(const StateDict& state);

}  // namespace accelerate
