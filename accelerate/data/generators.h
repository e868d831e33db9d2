// Gives random generators the same state on all ranks.
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <optional>
#include <vector>

#include "accelerate/data/loader_options.h"

namespace accelerate {

/// Gives the generators named by `types` the state that they have on rank 0. RngType::generator
/// stands for `generator`, RngType::cuda for the generator of `device`. A missing one is left out,
/// so it must be missing on all ranks. [collective] Cost: one broadcast of about 5 kB a generator.
/// Source: `synchronize_rng_states` of Hugging Face Accelerate.
void synchronize_rng_states(Communicator& communicator, const std::vector<RngType>& types,
                            const std::optional<at::Generator>& generator = std::nullopt,
                            const std::optional<c10::Device>& device = std::nullopt);

}  // namespace accelerate
