// A tensor under a name, such as a parameter of a model.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace accelerate {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

}  // namespace accelerate
