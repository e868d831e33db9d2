#include "accelerate/transformers/trainer/model_size.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/modules/embedding.h>

#include <set>

#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {
namespace {

ModuleView view_of_model(const TrainableModel& model) {
  return model.script() ? view_of(*model.script()) : view_of(*model.module());
}

}  // namespace

ModelSize size_of(const TrainableModel& model) {
  ModelSize size;
  std::set<const at::TensorImpl*> seen;
  for (const auto& [name, tensor] : view_of_model(model).parameters) {
    if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
    size.parameters += tensor.numel();
    if (tensor.requires_grad()) size.trained += tensor.numel();
  }
  if (!model.module()) return size;
  std::set<const at::TensorImpl*> tables;
  for (const auto& module : model.module()->modules(false)) {
    const auto* embedding = module->as<torch::nn::EmbeddingImpl>();
    if (embedding != nullptr && tables.insert(embedding->weight.unsafeGetTensorImpl()).second)
      size.embeddings += embedding->weight.numel();
  }
  return size;
}

double flops_per_token(const TrainableModel& model) {
  if (model.pretrained() == nullptr) return 0;
  const ModelSize size = size_of(model);
  return 6.0 * static_cast<double>(size.parameters - size.embeddings);
}

}  // namespace accelerate::detail
