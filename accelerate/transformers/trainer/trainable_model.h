// What a Trainer trains: a model of models/, a module of yours, or a TorchScript module, all behind
// one call.
//
//   Trainer({.model = AutoModelForCausalLM::from_pretrained("…")});
//   // Net has ModelOutput forward(const Inputs&).
//   Trainer({.model = std::make_shared<Net>()});
//   Trainer({.model = trainable(net, [](Net& net, const Inputs& batch) {
//     return ModelOutput{.logits = net->forward(batch["pixels"])};
//   })});
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/tensor/inputs.h"
#include "accelerate/transformers/models/model_output.h"

namespace torch {
namespace nn {
class Module;
}
namespace jit {
struct Module;
}
}  // namespace torch

namespace accelerate {
class PreTrainedModel;

namespace detail {
/// A module whose forward takes Inputs, that is, tensors by name.
template <typename M>
concept TakesInputs = std::is_base_of_v<torch::nn::Module, M> && requires(M& m, const Inputs& in) {
  { m.forward(in) } -> std::convertible_to<ModelOutput>;
};
}  // namespace detail

/// A handle: copies share the module. The module's parameters keep their names in checkpoints.
class TrainableModel {
 public:
  using Forward = std::function<ModelOutput(const Inputs& inputs)>;

  TrainableModel() = default;
  /// A module with `ModelOutput forward(const Inputs&)`.
  template <detail::TakesInputs M>
  TrainableModel(std::shared_ptr<M> module)  // NOLINT(google-explicit-constructor)
      : TrainableModel(std::shared_ptr<torch::nn::Module>(module),
                       [held = module.get()](const Inputs& inputs) -> ModelOutput {
                         return held->forward(inputs);
                       }) {}
  /// A TorchScript module, called with its arguments by name. It may return a tensor: the loss if
  /// its shape is {}, else the logits. It may return a dict or named tuple with the names of
  /// ModelOutput. Or it may return a tuple: a first tensor of shape {} is the loss and the next
  /// tensor the logits; otherwise the first tensor is the logits.
  TrainableModel(const torch::jit::Module& script);  // NOLINT(google-explicit-constructor)
  TrainableModel(std::shared_ptr<torch::nn::Module> module, Forward forward);

  [[nodiscard]] ModelOutput forward(const Inputs& inputs) const { return forward_(inputs); }
  [[nodiscard]] bool empty() const { return forward_ == nullptr; }
  /// Null for TorchScript.
  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& module() const { return module_; }
  /// Null unless it is TorchScript.
  [[nodiscard]] const std::shared_ptr<torch::jit::Module>& script() const { return script_; }
  /// Null unless it is a model of models/.
  [[nodiscard]] PreTrainedModel* pretrained() const { return pretrained_; }
  /// The name of the class, for people.
  [[nodiscard]] std::string name() const;
  /// The names of the arguments of forward; empty where they are unknown.
  [[nodiscard]] std::vector<std::string> input_names() const;
  void train(bool on = true) const;

 private:
  std::shared_ptr<torch::nn::Module> module_;
  std::shared_ptr<torch::jit::Module> script_;
  PreTrainedModel* pretrained_ = nullptr;
  Forward forward_;
};

/// Makes a TrainableModel of `module`, a shared_ptr or a module holder, whose forward is a call of
/// `forward(module, inputs)`.
template <typename Module, typename Fn>
[[nodiscard]] TrainableModel trainable(Module module, Fn forward) {
  static_assert(std::is_invocable_r_v<ModelOutput, Fn, Module&, const Inputs&>,
                "trainable(module, fn): fn must take the module and const Inputs& and return a "
                "ModelOutput");
  auto shared = [&module] {
    if constexpr (requires { module.ptr(); }) {
      return std::shared_ptr<torch::nn::Module>(module.ptr());
    } else {
      return std::shared_ptr<torch::nn::Module>(module);
    }
  }();
  return {std::move(shared),
          [module = std::move(module), forward = std::move(forward)](
              const Inputs& inputs) mutable -> ModelOutput { return forward(module, inputs); }};
}

}  // namespace accelerate
