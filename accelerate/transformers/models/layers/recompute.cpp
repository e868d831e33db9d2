#include "accelerate/transformers/models/layers/recompute.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/optim/precision/autocast.h"
#include "accelerate/tensor/compat/matrix_products.h"

namespace accelerate::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Layer = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

// The states of the generators from which a layer on a device may draw.
class RandomState {
 public:
  explicit RandomState(c10::Device device) : devices_{c10::Device(c10::kCPU)} {
    if (!device.is_cpu()) devices_.push_back(device);
    for (const auto& each : devices_) {
      at::Generator generator = generator_of(each);
      const std::lock_guard lock(generator.mutex());
      states_.push_back(generator.get_state());
    }
  }
  void restore() const {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      at::Generator generator = generator_of(devices_[i]);
      const std::lock_guard lock(generator.mutex());
      generator.set_state(states_[i]);
    }
  }

 private:
  static at::Generator generator_of(c10::Device device) {
    return at::globalContext().defaultGenerator(device);
  }

  std::vector<c10::Device> devices_;
  std::vector<at::Tensor> states_;
};

// Puts the generators into an earlier state, and back at its end.
class RandomScope {
 public:
  RandomScope(const RandomState& earlier, c10::Device device) : now_(device) { earlier.restore(); }
  ~RandomScope() { now_.restore(); }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomState now_;
};

// What a call of the layer depends on besides its inputs.
struct Call : torch::CustomClassHolder {
  Layer layer;
  std::vector<at::Tensor> parameters;
  c10::Device device;
  bool is_autocast;
  at::ScalarType autocast_type;
  RandomState random;
  bool wants_products = compat::MatrixProducts::are_wanted();

  Call(Layer called, std::vector<at::Tensor> leaves, c10::Device on)
      : layer(std::move(called)),
        parameters(std::move(leaves)),
        device(on),
        is_autocast(at::autocast::is_autocast_enabled(on.type())),
        autocast_type(at::autocast::get_autocast_dtype(on.type())),
        random(on) {}

  // Runs without autocast's cache of converted weights: a weight that was converted without
  // gradients would be used by calls that need its gradient.
  [[nodiscard]] at::Tensor run(const std::vector<at::Tensor>& inputs) const {
    const AutocastScope autocast(device.type(), autocast_type,
                                 {.enabled = is_autocast, .cache_enabled = false});
    return layer(inputs);
  }
};

struct Recompute : torch::autograd::Function<Recompute> {
  static at::Tensor forward(AutogradContext* context, const c10::intrusive_ptr<Call>& call,
                            at::TensorList inputs, at::TensorList) {
    context->save_for_backward(inputs.vec());
    context->saved_data["call"] = at::IValue::make_capsule(call);
    const at::NoGradGuard no_grad;
    return call->run(inputs.vec());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    if (at::GradMode::is_enabled())  // By create_graph.
      throw UsageError(
          "a second derivative was requested (create_graph), but gradient checkpointing keeps no "
          "graph of the layers. Call gradient_checkpointing_disable() before the forward");
    const auto call =
        c10::static_intrusive_pointer_cast<Call>(context->saved_data["call"].toCapsule());
    const compat::MatrixProducts products(call->wants_products);
    variable_list inputs = context->get_saved_variables();
    for (at::Tensor& each : inputs) each = each.detach().requires_grad_(each.requires_grad());
    variable_list candidates = inputs, wanted;
    candidates.insert(candidates.end(), call->parameters.begin(), call->parameters.end());
    for (const at::Tensor& each : candidates)
      if (each.requires_grad()) wanted.push_back(each);
    const auto found = torch::autograd::grad({again(*call, inputs)}, wanted, {gradients.front()},
                                             /*retain_graph=*/std::nullopt,
                                             /*create_graph=*/false, /*allow_unused=*/true);
    variable_list all(1);  // The call itself has no gradient.
    auto next = found.begin();
    for (const at::Tensor& each : candidates)
      all.push_back(each.requires_grad() ? *next++ : at::Tensor());
    return all;
  }

 private:
  static at::Tensor again(const Call& call, const variable_list& inputs) {
    const RandomScope scope(call.random, call.device);
    const at::AutoGradMode with_gradients(true);
    return call.run(inputs);
  }
};

}  // namespace

at::Tensor recomputed(const Layer& layer, const std::vector<at::Tensor>& inputs,
                      const std::vector<at::Tensor>& parameters) {
  if (!at::GradMode::is_enabled()) return layer(inputs);
  const auto call = c10::make_intrusive<Call>(layer, parameters, inputs.front().device());
  return Recompute::apply(call, at::TensorList(inputs), at::TensorList(parameters));
}

}  // namespace accelerate::detail
