#include "accelerate/transformers/models/pre_trained_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/layers/recompute.h"

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
  initialiser.usual(module, usual_deviation());
}

double PreTrainedModel::usual_deviation() const {
  const double deviation = config_.get<double>("initializer_range", kUsualDeviation);
  return deviation == 0 ? kUsualDeviation : deviation;
}

torch::nn::Embedding PreTrainedModel::input_embeddings() {
  throw UsageError(name() + " does not say which layer its embeddings of words are");
}

at::Tensor PreTrainedModel::prepare_decoder_input_ids_from_labels(
    const at::Tensor& /*labels*/) const {
  throw UsageError(name() +
                   " has no decoder beside an encoder: it takes labels, and no decoder_input_ids");
}

bool PreTrainedModel::ignores(const std::string& name) const {
  // Older files hold tensors that are now computed from the configuration.
  return name == "position_ids" || name.ends_with(".position_ids") ||
         name.ends_with("rotary_emb.inv_freq");
}

ParallelPlan PreTrainedModel::parallel_plan() const {
  ParallelPlan plan;
  std::vector<std::string> head;
  for (const auto& child : named_children()) {
    if (const auto* model = dynamic_cast<const PreTrainedModel*>(child.value().get())) {
      plan = model->parallel_plan().below(child.key());
    } else {
      head.push_back(child.key());
    }
  }
  if (!head.empty()) plan.pipeline.push_back(std::move(head));
  return plan;
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

void PreTrainedModel::set_recomputes(bool recomputes) {
  for (const auto& module : modules()) {
    if (auto* model = dynamic_cast<PreTrainedModel*>(module.get())) model->recomputes_ = recomputes;
  }
}

bool PreTrainedModel::compute_layers_again() {
  for (const auto& module : modules()) {
    const auto* model = dynamic_cast<const PreTrainedModel*>(module.get());
    if (model != nullptr && model->shares_layers()) return false;
  }
  gradient_checkpointing_enable();
  return true;
}

void PreTrainedModel::set_embedding_noise(double alpha) {
  for (const auto& module : modules()) {
    if (auto* model = dynamic_cast<PreTrainedModel*>(module.get())) model->embedding_noise_ = alpha;
  }
}

at::Tensor PreTrainedModel::embed(torch::nn::Embedding& table, const at::Tensor& ids,
                                  std::int64_t length) const {
  at::Tensor words = table(ids);
  if (embedding_noise_ == 0 || !is_training()) return words;
  const auto numbers = static_cast<double>(length * words.size(-1));
  const double most = embedding_noise_ / std::sqrt(numbers);
  return words + at::empty_like(words).uniform_(-most, most);
}

at::Tensor PreTrainedModel::run_layer(
    const torch::nn::Module& layer, const std::vector<at::Tensor>& inputs,
    const std::function<at::Tensor(const std::vector<at::Tensor>&)>& forward,
    const std::vector<at::Tensor>& shared) const {
  if (!recomputes_ || !is_training()) return forward(inputs);
  std::vector<at::Tensor> parameters = layer.parameters();
  parameters.insert(parameters.end(), shared.begin(), shared.end());
  return detail::recomputed(forward, inputs, parameters);
}

void PreTrainedModel::set_attention(const std::string& name) {
  const auto kind = detail::attention_kind_of(name);
  for (const auto& module : modules()) {
    if (auto* model = dynamic_cast<PreTrainedModel*>(module.get())) model->attention_ = kind;
  }
}

}  // namespace accelerate
