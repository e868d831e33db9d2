// Encoders whose layers are not BERT's: one word each in both lists, for the source of that name, and
// one in registry.cpp.
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

Architecture modernbert(), deberta_v2(), albert(), mpnet();

extern "C" const std::vector<Architecture>& accelerate_model_family() {
  static const std::vector<Architecture> all{modernbert(), deberta_v2(), albert(), mpnet()};
  return all;
}

}  // namespace accelerate::detail
