#include "accelerate/transformers/trainer/prepared_model.h"

#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>

namespace accelerate::detail {
namespace {

std::shared_ptr<ModelCore> prepare_core(Accelerator& accelerator, const TrainableModel& model) {
  if (model.script()) return accelerator.prepare(*model.script()).core();
  auto module = model.module();
  return accelerator.prepare(module).core();
}

}  // namespace

PreparedModel::PreparedModel(Accelerator& accelerator, TrainableModel model)
    : model_(std::move(model)),
      call_(std::make_shared<Callable>(Callable{model_}), prepare_core(accelerator, model_)) {}

}  // namespace accelerate::detail
