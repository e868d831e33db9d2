#include "accelerate/transformers/trainer/trainable_model.h"

#include <c10/util/Type.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/text_model.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate {
namespace {

// Returns the arguments of a TorchScript forward, without the module itself.
std::vector<std::string> script_arguments(const torch::jit::Module& script) {
  std::vector<std::string> names;
  const auto method = script.find_method("forward");
  if (!method) throw UsageError("the TorchScript module has no forward, which a Trainer calls");
  const auto& arguments = method->function().getSchema().arguments();
  for (std::size_t i = 1; i < arguments.size(); ++i) names.push_back(arguments[i].name());
  return names;
}

void set_field(ModelOutput& output, const std::string& name, const at::Tensor& tensor) {
  const std::pair<const char*, at::Tensor*> fields[] = {
      {"loss", &output.loss},
      {"logits", &output.logits},
      {"last_hidden_state", &output.last_hidden_state},
      {"pooler_output", &output.pooler_output},
      {"start_logits", &output.start_logits},
      {"end_logits", &output.end_logits}};
  for (const auto& [field, place] : fields)
    if (name == field) *place = tensor;
}

ModelOutput of_tuple(const c10::IValue& value) {
  ModelOutput output;
  const auto tuple = value.toTuple();
  const auto schema = tuple->type()->schema();
  std::vector<at::Tensor> tensors;
  for (std::size_t i = 0; i < tuple->elements().size(); ++i) {
    const auto& element = tuple->elements()[i];
    if (!element.isTensor()) continue;
    if (schema) set_field(output, schema->arguments()[i].name(), element.toTensor());
    tensors.push_back(element.toTensor());
  }
  if (schema || tensors.empty()) return output;
  const bool has_loss = tensors.front().dim() == 0;
  if (has_loss) output.loss = tensors.front();
  if (tensors.size() > (has_loss ? 1U : 0U)) output.logits = tensors[has_loss ? 1 : 0];
  return output;
}

ModelOutput output_of(const c10::IValue& value) {
  ModelOutput output;
  if (value.isTensor()) {
    (value.toTensor().dim() == 0 ? output.loss : output.logits) = value.toTensor();
  } else if (value.isTuple()) {
    output = of_tuple(value);
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      if (entry.key().isString() && entry.value().isTensor())
        set_field(output, entry.key().toStringRef(), entry.value().toTensor());
    }
  } else {
    throw UsageError("the TorchScript module returned " + std::string(value.tagKind()) +
                     "; a Trainer takes a tensor, a tuple or a dict of tensors");
  }
  return output;
}

}  // namespace

TrainableModel::TrainableModel(const torch::jit::Module& script)
    : script_(std::make_shared<torch::jit::Module>(script)),
      forward_([script = script_](const Inputs& inputs) {
        std::unordered_map<std::string, c10::IValue> arguments;
        for (const auto& [name, tensor] : inputs) arguments.emplace(name, tensor);
        return output_of(script->forward({}, arguments));
      }) {
  (void)script_arguments(script);
}

TrainableModel::TrainableModel(std::shared_ptr<torch::nn::Module> module, Forward forward)
    : module_(std::move(module)),
      pretrained_(dynamic_cast<PreTrainedModel*>(module_.get())),
      forward_(std::move(forward)) {
  if (module_ == nullptr) throw UsageError("a Trainer was given a model that is null");
}

std::string TrainableModel::name() const {
  if (script_) return script_->type()->name() ? script_->type()->name()->name() : "ScriptModule";
  if (!module_) return "";
  const std::string full = module_->name();  // Some are "(anonymous namespace)::NetImpl".
  const auto colons = full.rfind("::");
  std::string name = colons == std::string::npos ? full : full.substr(colons + 2);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

std::vector<std::string> TrainableModel::input_names() const {
  if (script_) return script_arguments(*script_);
  return pretrained_ != nullptr ? pretrained_->input_names() : std::vector<std::string>{};
}

void TrainableModel::train(bool on) const {
  script_ ? script_->train(on) : module_->train(on);
}

}  // namespace accelerate
