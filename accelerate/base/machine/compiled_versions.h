// Loops that are compiled once per instruction set: which of them run here, and which are used.
#pragma once

#include <atomic>
#include <span>
#include <string_view>
#include <vector>

namespace accelerate::detail {

template <typename Table>
struct CompiledVersion {
  std::string_view name;  ///< "baseline", "avx2", "avx512".
  const Table* table;
  bool (*runs_here)();  ///< Whether the processor has what accelerate/CMakeLists.txt compiles for.
};

/// Uses the best version that this processor has, unless choose() says otherwise. Thread-safe.
template <typename Table>
class CompiledVersions {
 public:
  /// `all`: in ascending order of speed, and alive as long as this. The first runs everywhere.
  explicit CompiledVersions(std::span<const CompiledVersion<Table>> all)
      : all_(all), in_use_(&best()) {}

  [[nodiscard]] const Table& in_use() const noexcept {
    return *in_use_.load(std::memory_order_relaxed);
  }

  [[nodiscard]] const Table& best() const noexcept {
    const Table* found = nullptr;
    for (const auto& version : all_) {
      if (version.runs_here()) found = version.table;
    }
    return *found;
  }

  /// Returns the names of those that run here, the slowest first.
  [[nodiscard]] std::vector<std::string_view> names() const {
    std::vector<std::string_view> found;
    for (const auto& version : all_) {
      if (version.runs_here()) found.push_back(version.name);
    }
    return found;
  }

  /// Uses the version `name`, one of names(), from now on. Returns false for any other name.
  bool choose(std::string_view name) noexcept {
    for (const auto& version : all_) {
      if (version.name != name || !version.runs_here()) continue;
      in_use_.store(version.table, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

 private:
  std::span<const CompiledVersion<Table>> all_;
  std::atomic<const Table*> in_use_;
};

}  // namespace accelerate::detail
