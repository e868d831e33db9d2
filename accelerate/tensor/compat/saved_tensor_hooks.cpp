#include "accelerate/tensor/compat/saved_tensor_hooks.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <utility>

namespace accelerate::compat {
namespace {

thread_local SavedTensorPolicy* present_policy = nullptr;

class EngineWithHooks final : public torch::autograd::Engine {
 public:
  std::unique_ptr<SavedTensorHooks> get_default_saved_variable_hooks() override {
    return present_policy != nullptr ? present_policy->make_hooks() : nullptr;
  }
  // Never destroyed, as LibTorch's own: its threads may outlive static objects.
  static torch::autograd::Engine& instance() {
    static auto* engine = new EngineWithHooks;
    return *engine;
  }
};

bool install_engine() {
  torch::autograd::set_default_engine_stub(&EngineWithHooks::instance);
  return true;
}

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorPolicy* policy) : outer_(present_policy) {
  static const bool installed = install_engine();
  present_policy = installed ? policy : nullptr;
}

SavedTensorScope::~SavedTensorScope() {
  present_policy = outer_;
}

void at_end_of_backward(std::function<void()> callback) {
  if (torch::autograd::get_current_graph_task_id() == -1) return callback();
  torch::autograd::Engine::get_default_engine().queue_callback(std::move(callback));
}

}  // namespace accelerate::compat
