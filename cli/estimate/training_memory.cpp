#include "cli/estimate/training_memory.h"

namespace accelerate::cli {
namespace {

// Named by the letters of docs/costs.md.
struct Costs {
  double N, U, R, P, m, c, r;
  [[nodiscard]] bool is_mixed() const { return c < m; }
};

double replicated(const Costs& k) {
  return 4 * k.N * k.m + (k.is_mixed() ? k.N * k.c : 0);
}

double shards(const Costs& k) {
  return 4 * k.N / k.P * k.m + 2 * k.U * k.r;
}

double full_shard(const Costs& k) {
  return shards(k) + (k.is_mixed() ? k.N / k.P * k.c : 0) + (k.R + 3 * k.U) * k.c;
}

double shared_pages(const Costs& k) {
  const double parameters = k.N * k.c + (k.is_mixed() ? k.N * k.m : 0);
  return (parameters + k.N * k.m + k.P * 2 * k.U * k.r + 2 * k.N * k.m) / k.P;
}

}  // namespace

double training_bytes(const ModelSizes& sizes, Division division, int processes,
                      MixedPrecision precision) {
  constexpr double kMaster = 4;
  const double compute = precision == MixedPrecision::no ? kMaster : 2;
  const Costs k{.N = static_cast<double>(sizes.parameters),
                .U = static_cast<double>(sizes.largest_unit),
                .R = static_cast<double>(sizes.root),
                .P = static_cast<double>(processes),
                .m = kMaster,
                .c = compute,
                .r = compute};
  switch (division) {
    case Division::replicated:
      return replicated(k);
    case Division::full_shard:
      return full_shard(k);
    case Division::shard_grad_op:
      return shards(k) + k.N * k.c;
    case Division::shared_pages:
      return shared_pages(k);
  }
  return 0;
}

std::uint64_t upstream_training_bytes(std::uint64_t bytes, const std::string& dtype) {
  if (dtype == "float32") return 4 * bytes;
  return dtype == "float16" ? 2 * bytes : 0;
}

}  // namespace accelerate::cli
