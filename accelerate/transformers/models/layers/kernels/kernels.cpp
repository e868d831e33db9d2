#include "accelerate/transformers/models/layers/kernels/kernels.h"

#include "accelerate/base/machine/compiled_versions.h"
#include "accelerate/base/machine/hardware.h"

namespace accelerate::detail::layer_kernels {
namespace {

constexpr CompiledVersion<KernelTable> kVersions[] = {
    {"baseline", &kernels_baseline, [] { return true; }},
#if defined(__x86_64__)
    {"avx2", &kernels_avx2, has_avx2},
    {"avx512", &kernels_avx512, [] { return has_avx2() && this_processor().avx512; }},
#endif
};

CompiledVersions<KernelTable>& compiled() noexcept {
  static CompiledVersions<KernelTable> versions{kVersions};
  return versions;
}

}  // namespace

const KernelTable& loops() noexcept {
  return compiled().in_use();
}

bool are_vectorised() noexcept {
  static const bool kAreVectorised = &compiled().best() != &kernels_baseline;
  return kAreVectorised;
}

std::vector<std::string_view> versions() {
  return compiled().names();
}

bool choose(std::string_view name) {
  return compiled().choose(name);
}

}  // namespace accelerate::detail::layer_kernels
