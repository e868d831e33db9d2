// Models of an encoder and a decoder: one word each in both lists, for the source of that name, and one
// in registry.cpp.
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

Architecture t5(), bart();

extern "C" const std::vector<Architecture>& accelerate_model_family() {
  static const std::vector<Architecture> all{t5(), bart()};
  return all;
}

}  // namespace accelerate::detail
