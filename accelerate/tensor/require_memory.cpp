#include "accelerate/tensor/require_memory.h"

#include "accelerate/base/error.h"

namespace accelerate::detail {

void require_memory(const ModuleView& model, const std::string& done) {
  for (const auto& [name, tensor] : state_dict(model)) {
    if (tensor.is_meta())
      throw UsageError("the model " + model.class_name + " cannot be " + done + ": " + name +
                       " has no memory, as of a model made while init_empty_weights is alive. "
                       "Call materialise(model) or load_checkpoint_in_model(model, checkpoint) "
                       "first.");
  }
}

}  // namespace accelerate::detail
