#include <torch/csrc/jit/api/module.h>

#include "accelerate/accelerator/prepared.h"

namespace accelerate {
namespace {

// A TorchScript value with its 16-bit floating tensors in fp32. Containers are copied, for the
// script may keep them.
c10::IValue to_fp32(const c10::IValue& value) {
  if (value.isTensor()) return detail::to_fp32(value.toTensor());
  if (value.isTuple()) {
    std::vector<c10::IValue> elements;
    for (const auto& element : value.toTupleRef().elements()) elements.push_back(to_fp32(element));
    if (const auto type = value.type()->cast<c10::TupleType>(); type && type->schema()) {
      return c10::ivalue::Tuple::createNamed(std::move(elements), type);
    }
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isList()) {
    const auto list = value.toList();
    c10::List<c10::IValue> converted(list.elementType());
    for (const c10::IValue& element : list) converted.push_back(to_fp32(element));
    return converted;
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict();
    c10::Dict<c10::IValue, c10::IValue> converted(dict.keyType(), dict.valueType());
    for (const auto& entry : dict) converted.insert(entry.key(), to_fp32(entry.value()));
    return converted;
  }
  return value;
}

}  // namespace

PreparedScript::PreparedScript(torch::jit::Module& module, std::shared_ptr<detail::ModelCore> core)
    : module_(&module), core_(std::move(core)) {}

c10::IValue PreparedScript::forward(std::vector<c10::IValue> inputs) {
  core_->before_forward();
  if (!core_->native_amp()) return module_->forward(std::move(inputs));
  const auto scope = core_->autocast();
  return to_fp32(module_->forward(std::move(inputs)));
}

c10::IValue PreparedScript::operator()(std::vector<c10::IValue> inputs) {
  return forward(std::move(inputs));
}

void PreparedScript::train(bool on) {
  module_->train(on);
}

}  // namespace accelerate
