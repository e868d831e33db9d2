#include "accelerate/transformers/models/layers/kernels/kernels.h"

#include <atomic>

#include "accelerate/base/machine/hardware.h"

namespace accelerate::detail::layer_kernels {
namespace {

struct Version {
  std::string_view name;
  const KernelTable* table;
  bool (*runs_here)();  ///< Whether the processor has what accelerate/CMakeLists.txt compiles for.
};

// In ascending order of speed.
constexpr Version kVersions[] = {
    {"baseline", &kernels_baseline, [] { return true; }},
#if defined(__x86_64__)
    {"avx2", &kernels_avx2, has_avx2},
    {"avx512", &kernels_avx512, [] { return has_avx2() && this_processor().avx512; }},
#endif
};

const KernelTable* best_table() {
  const KernelTable* best = nullptr;
  for (const auto& version : kVersions) {
    if (version.runs_here()) best = version.table;
  }
  return best;
}

std::atomic<const KernelTable*>& table_in_use() {
  static std::atomic<const KernelTable*> table{best_table()};
  return table;
}

}  // namespace

const KernelTable& loops() noexcept {
  return *table_in_use().load(std::memory_order_relaxed);
}

bool are_vectorised() noexcept {
  static const bool kAreVectorised = best_table() != &kernels_baseline;
  return kAreVectorised;
}

std::vector<std::string_view> versions() {
  std::vector<std::string_view> names;
  for (const auto& version : kVersions) {
    if (version.runs_here()) names.push_back(version.name);
  }
  return names;
}

bool choose(std::string_view name) {
  for (const auto& version : kVersions) {
    if (version.name != name || !version.runs_here()) continue;
    table_in_use().store(version.table, std::memory_order_relaxed);
    return true;
  }
  return false;
}

}  // namespace accelerate::detail::layer_kernels
