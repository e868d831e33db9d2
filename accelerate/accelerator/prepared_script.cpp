#include <torch/csrc/jit/api/module.h>

#include "accelerate/accelerator/prepared.h"

namespace accelerate {

PreparedScript::PreparedScript(torch::jit::Module& module, std::shared_ptr<detail::ModelCore> core)
    : module_(&module), core_(std::move(core)) {}

c10::IValue PreparedScript::forward(std::vector<c10::IValue> inputs) {
  core_->before_forward();
  return module_->forward(std::move(inputs));
}

c10::IValue PreparedScript::operator()(std::vector<c10::IValue> inputs) {
  return forward(std::move(inputs));
}

void PreparedScript::train(bool on) {
  module_->train(on);
}

}  // namespace accelerate
