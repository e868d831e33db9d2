// A rank's part of a tensor that the sharded engine has cut: a range of the tensor's elements in
// row-major order, regardless of rows.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace accelerate {

struct NamedShard {
  std::string name;        ///< Name of the whole tensor, "layer1.weight".
  at::Tensor local;        ///< This rank's elements, shape {n}; n may be 0.
  std::int64_t begin = 0;  ///< First element in the whole tensor; any value if `local` is empty.
  std::vector<std::int64_t> shape;  ///< Shape of the whole tensor.
};

}  // namespace accelerate
