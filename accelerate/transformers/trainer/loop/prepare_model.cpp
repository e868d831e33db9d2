#include "accelerate/transformers/trainer/loop/prepare_model.h"

#include <ATen/Context.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

#include <optional>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/transformers/models/pre_trained_model.h"
#include "accelerate/transformers/trainer/arguments/accelerator_options.h"

namespace accelerate::detail {
namespace {

PreTrainedModel& pretrained_for(const TrainableModel& model, const char* argument) {
  if (auto* pretrained = model.pretrained()) return *pretrained;
  throw ConfigError(
      std::string(argument) + " is set, and " + model.name() +
      " is no model of accelerate/transformers/models: leave it out, or do it in the model itself");
}

std::optional<at::ScalarType> evaluation_type(const TrainingArguments& args) {
  if (args.bf16_full_eval) return at::kBFloat16;
  if (args.fp16_full_eval) return at::kHalf;
  return std::nullopt;
}

}  // namespace

void apply_to_model(const TrainingArguments& args, const TrainableModel& model) {
  if (recomputes_activations(args))
    pretrained_for(model, "gradient_checkpointing").gradient_checkpointing_enable();
  if (args.neftune_noise_alpha)
    pretrained_for(model, "neftune_noise_alpha").set_embedding_noise(*args.neftune_noise_alpha);
  if (args.use_cache)
    get_logger("accelerate.trainer")
        .warning("use_cache is set and changes nothing: models keep no keys while they train");
  if (args.tf32) {
    at::globalContext().setAllowTF32CuBLAS(*args.tf32);
    at::globalContext().setAllowTF32CuDNN(*args.tf32);
  }
}

void check_half_weights(const TrainingArguments& args, bool is_sharded) {
  if (!is_sharded || !evaluation_type(args)) return;
  throw ConfigError(
      "bf16_full_eval and fp16_full_eval change the type of whole parameters, and the model is "
      "sharded: use bf16 or fp16, which compute in that type");
}

HalfWeights::HalfWeights(const TrainingArguments& args, const TrainableModel& model) {
  const auto type = evaluation_type(args);
  if (!type) return;
  const ModuleView view = model.script() ? view_of(*model.script()) : view_of(*model.module());
  const auto halve = [&](const std::vector<NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors) {
      if (!tensor.is_floating_point() || tensor.scalar_type() == *type) continue;
      at::Tensor leaf = tensor;
      before_.emplace_back(leaf, leaf.data());
      leaf.set_data(leaf.detach().to(*type));
    }
  };
  halve(view.parameters);
  halve(view.buffers);
}

HalfWeights::~HalfWeights() {
  for (auto& [leaf, data] : before_) leaf.set_data(data);
}

}  // namespace accelerate::detail
