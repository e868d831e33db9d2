#include "accelerate/tensor/seed.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "accelerate/base/process_identity.h"

namespace accelerate {

void set_seed(std::uint64_t seed, const SeedOptions& options) {
  if (options.device_specific) seed += static_cast<std::uint64_t>(process_identity().rank);
  at::manual_seed(seed);
  if (options.deterministic)
    at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
}

std::uint64_t initial_seed() {
  return at::detail::getDefaultCPUGenerator().current_seed();
}

}  // namespace accelerate
