// A rank's part of a tensor that lies on several ranks, as the sharded engine cuts them: a range of
// the elements of the whole, row-major, without regard to rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace accelerate {

struct NamedShard {
  std::string name;        ///< Of the whole tensor, "layer1.weight".
  at::Tensor local;        ///< This rank's elements, shape {n}; n may be 0.
  std::int64_t begin = 0;  ///< Where they begin in the whole; any value when there are none.
  std::vector<std::int64_t> shape;  ///< Of the whole.
};

}  // namespace accelerate
