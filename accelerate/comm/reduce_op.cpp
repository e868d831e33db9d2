#include "accelerate/comm/reduce_op.h"

#include <array>
#include <cstddef>

namespace accelerate {

std::string_view to_string(ReduceOp op) {
  constexpr std::array<std::string_view, 8> kNames = {"sum",     "mean", "min", "max",
                                                      "product", "band", "bor", "bxor"};
  return kNames[static_cast<std::size_t>(op)];
}

}  // namespace accelerate
