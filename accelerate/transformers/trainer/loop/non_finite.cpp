#include "accelerate/transformers/trainer/loop/training_loop.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/isfinite.h>
#include <ATen/record_function.h>

#include <map>
#include <mutex>

#include "accelerate/parallel/model_parts.h"

namespace accelerate::detail {
namespace {

bool is_finite(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_meta() || !tensor.is_floating_point()) return true;
  if (tensor.numel() == 0 || !tensor.has_storage()) return true;
  return tensor.isfinite().all().item<bool>();
}

// What to look for while operators run, and what was found.
struct Search {
  std::map<const at::TensorImpl*, std::string> parameters;
  std::string last_parameter;  // The parameter that was read last.
  std::string last_operator;   // The operator that was looked at last.
  std::string found;           // The first operator whose result is not finite.
  std::string found_behind;    // The parameter that was read last before it.
  bool looking = false;        // Whether the search itself runs operators: they are not looked at.
};

Search* search_under_way = nullptr;  // Set while a SearchScope lives.

template <typename Visit>
void for_each_tensor_of(const auto& values, Visit visit) {
  for (const c10::IValue& value : values) {
    if (value.isTensor()) visit(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

void note_found(Search& search, const std::string& what) {
  search.found = what;
  search.found_behind = search.last_parameter;
}

bool any_not_finite(Search& search, const std::vector<c10::IValue>& values) {
  bool found = false;
  search.looking = true;
  for_each_tensor_of(values, [&](const at::Tensor& tensor) { found |= !is_finite(tensor); });
  search.looking = false;
  return found;
}

// A kernel of this library is not an operator. Its result is seen when the next operator reads it.
void note_kernel_before(Search& search, const at::RecordFunction& function) {
  if (!search.found.empty()) return;
  const std::vector<c10::IValue> inputs(function.inputs().begin(), function.inputs().end());
  if (any_not_finite(search, inputs))
    note_found(search,
               search.last_operator.empty()
                   ? "what goes into " + std::string(function.name())
                   : "a kernel between " + search.last_operator + " and " + function.name());
}

std::unique_ptr<at::ObserverContext> note_inputs(const at::RecordFunction& function) {
  Search* search = search_under_way;
  if (search == nullptr || search->looking) return nullptr;
  for_each_tensor_of(function.inputs(), [&](const at::Tensor& tensor) {
    const auto known = search->parameters.find(tensor.unsafeGetTensorImpl());
    if (known != search->parameters.end()) search->last_parameter = known->second;
  });
  note_kernel_before(*search, function);
  return nullptr;
}

void look_at_outputs(const at::RecordFunction& function, at::ObserverContext*) {
  Search* search = search_under_way;
  if (search == nullptr || search->looking || !search->found.empty()) return;
  const std::vector<c10::IValue> outputs(function.outputs().begin(), function.outputs().end());
  search->last_operator = function.name();
  if (any_not_finite(*search, outputs)) note_found(*search, search->last_operator);
}

// While it lives, the operators of this thread are looked at.
class SearchScope {
 public:
  explicit SearchScope(Search& search)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(note_inputs, look_at_outputs)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    search_under_way = &search;
  }
  ~SearchScope() {
    search_under_way = nullptr;
    at::removeCallback(handle_);
  }
  SearchScope(const SearchScope&) = delete;
  SearchScope& operator=(const SearchScope&) = delete;

 private:
  at::CallbackHandle handle_;
};

std::string first_parameter(const ModuleView& view, bool of_gradient) {
  for (const auto& [name, tensor] : view.parameters) {
    const at::Tensor looked = of_gradient ? tensor.grad() : tensor;
    if (!is_finite(looked)) return name;
  }
  return "";
}

std::string first_operator(TrainerCore& core, const ModuleView& view, const Inputs& batch) {
  Search search;
  for (const auto& [name, tensor] : view.parameters)
    search.parameters.emplace(tensor.unsafeGetTensorImpl(), name);
  const at::NoGradGuard no_grad;
  const SearchScope scope(search);
  (void)core.trained.model().forward(batch);
  if (search.found.empty()) return "";
  const std::string& parameter = search.found_behind;
  return search.found + (parameter.empty() ? "" : ", after parameter " + parameter + ",") +
         " gave the first such value";
}

std::string cause(TrainerCore& core, const Inputs* batch) {
  const auto& engine = *core.trained.prepared_model().core();
  const bool is_sharded = engine.parallel().parts->is_sharded();
  if (!is_sharded) {
    if (const auto name = first_parameter(engine.view(), false); !name.empty())
      return "parameter " + name + " is not finite itself";
  }
  if (batch == nullptr) {
    const auto name = is_sharded ? "" : first_parameter(engine.view(), true);
    if (!name.empty()) return "the first parameter with such a gradient is " + name;
    return is_sharded ? "its norm is not finite" : "only its norm is not finite";
  }
  if (is_sharded) return "on this rank; train unsharded to learn in which layer";
  const auto found = first_operator(core, engine.view(), *batch);
  return found.empty() ? "computed again, with new dropout, it is finite" : found;
}

}  // namespace

std::string explain_non_finite(TrainerCore& core, const Inputs* batch) {
  const std::string what = batch != nullptr ? "the loss" : "a gradient";
  return "step " + std::to_string(core.record.state.global_step + 1) + ": " + what +
         " is NaN or infinite on rank " + std::to_string(core.accelerator.process_index()) + ": " +
         cause(core, batch);
}

}  // namespace accelerate::detail
