#include "accelerate/models/pre_trained_model.h"

#include <ATen/core/grad_mode.h>
#include <memory>
#include <set>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

constexpr double kUsualDeviation = 0.02;

}  // namespace

PreTrainedModel::PreTrainedModel(const std::string& name, PretrainedConfig config,
                                 std::string base_model_prefix)
    : torch::nn::Module(name),
      config_(std::move(config)),
      base_model_prefix_(std::move(base_model_prefix)) {}

void PreTrainedModel::post_init() {
  std::set<const at::TensorImpl*> done;
  for (const auto& module : modules(/*include_self=*/false)) {
    if (std::dynamic_pointer_cast<PreTrainedModel>(module) == nullptr) continue;
    for (const at::Tensor& parameter : module->parameters())
      done.insert(parameter.unsafeGetTensorImpl());
  }
  initialise(
      [&](const at::Tensor& parameter) { return !done.contains(parameter.unsafeGetTensorImpl()); });
  tie_weights();
}

void PreTrainedModel::initialise(detail::WeightInitialiser::Wants wants) {
  const at::NoGradGuard no_grad;
  detail::WeightInitialiser initialiser(std::move(wants));
  initialise_below(*this, initialiser);
}

void PreTrainedModel::initialise_below(torch::nn::Module& module,
                                       detail::WeightInitialiser& initialiser) {
  for (const auto& child : module.children()) {
    if (auto* model = dynamic_cast<PreTrainedModel*>(child.get())) {
      model->initialise_below(*model, initialiser);
    } else {
      initialise_below(*child, initialiser);
    }
  }
  init_weights(module, initialiser);
}

void PreTrainedModel::init_weights(torch::nn::Module& module,
                                   detail::WeightInitialiser& initialiser) {
  const double deviation = config_.get<double>("initializer_range", kUsualDeviation);
  initialiser.usual(module, deviation == 0 ? kUsualDeviation : deviation);
}

torch::nn::Embedding PreTrainedModel::input_embeddings() {
  throw UsageError(name() + " does not say which layer its embeddings of words are");
}

bool PreTrainedModel::ignores(const std::string& name) const {
  // Older files have what is computed from the configuration.
  return name == "position_ids" || name.ends_with(".position_ids") ||
         name.ends_with("rotary_emb.inv_freq");
}

void PreTrainedModel::freeze(const std::string& prefix) {
  bool any = false;
  for (auto& item : named_parameters()) {
    if (!item.key().starts_with(prefix)) continue;
    item.value().set_requires_grad(false);
    any = true;
  }
  if (!any) throw UsageError("no parameter of " + name() + " begins with '" + prefix + "'");
}

void PreTrainedModel::set_drops_padding(bool drops) {
  for (const auto& module : modules()) {
    if (auto* model = dynamic_cast<PreTrainedModel*>(module.get())) model->drops_padding_ = drops;
  }
}

void PreTrainedModel::set_attention(const std::string& name) {
  const auto kind = detail::attention_kind_of(name);
  for (const auto& module : modules()) {
    if (auto* model = dynamic_cast<PreTrainedModel*>(module.get())) model->attention_ = kind;
  }
}

}  // namespace accelerate
