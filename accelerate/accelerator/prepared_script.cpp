#include <torch/csrc/jit/api/module.h>

#include <functional>

#include "accelerate/accelerator/prepared.h"

namespace accelerate {
namespace {

using Convert = std::function<at::Tensor(const at::Tensor&)>;

// Returns a TorchScript value with its tensors converted. Copies containers, since the script may
// keep them.
c10::IValue converted_by(const Convert& convert, const c10::IValue& value) {
  if (value.isTensor()) return convert(value.toTensor());
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const auto& element : value.toTupleRef().elements())
      elements.push_back(converted_by(convert, element));
    if (const auto type = value.type()->cast<c10::TupleType>(); type && type->schema()) {
      return c10::ivalue::Tuple::createNamed(std::move(elements), type);
    }
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isList()) {
    const auto list = value.toList();
    c10::List<c10::IValue> converted(list.elementType());
    for (const c10::IValue& element : list) converted.push_back(converted_by(convert, element));
    return converted;
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    c10::Dict<c10::IValue, c10::IValue> converted(dict.keyType(), dict.valueType());
    for (const auto& entry : dict)
      converted.insert(entry.key(), converted_by(convert, entry.value()));
    return converted;
  }
  return value;
}

}  // namespace

PreparedScript::PreparedScript(torch::jit::Module& module, std::shared_ptr<detail::ModelCore> core)
    : PreparedModel(std::move(core)), module_(&module) {}

c10::IValue PreparedScript::forward(std::vector<c10::IValue> inputs) {
  if (core()->casts_inputs()) {
    for (auto& input : inputs) {
      input = converted_by([this](const at::Tensor& t) { return core()->in_input_type(t); }, input);
    }
  }
  auto output = core()->run_forward([&] { return module_->forward(std::move(inputs)); });
  if (!core()->casts_outputs()) return output;
  return converted_by([this](const at::Tensor& t) { return core()->in_output_type(t); }, output);
}

c10::IValue PreparedScript::operator()(std::vector<c10::IValue> inputs) {
  return forward(std::move(inputs));
}

void PreparedScript::train(bool on) {
  module_->train(on);
}

}  // namespace accelerate
