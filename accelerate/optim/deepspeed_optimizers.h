// Makes the optimizer that DeepSpeed's own file describes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <torch/optim/optimizer.h>

#include "accelerate/launch/config/deepspeed_file.h"

namespace accelerate {

/// What the file's "auto" means.
struct DummyOptimOptions {
  double lr = 1e-3;
  double weight_decay = 0;
  std::optional<std::tuple<double, double>> betas{};  ///< Default: the optimizer's.
  std::optional<double> eps{};                        ///< Default: the optimizer's.
};

/// Where a parameter is in its model.
struct ParameterPlace {
  std::string name;                 ///< "layer1.weight"
  std::vector<std::int64_t> shape;  ///< Of the whole parameter.
};
/// Returns the place of a parameter; nullopt if no model has it.
using FindParameter = std::function<std::optional<ParameterPlace>(const at::Tensor&)>;

}  // namespace accelerate

namespace accelerate::detail {

/// What DummyOptim::made_from() is told of models.
struct ModelsOfOptimizer {
  FindParameter find{};
  bool clips_updates = false;
};

/// See DummyOptim::made_from().
[[nodiscard]] std::unique_ptr<torch::optim::Optimizer> optimizer_from(
    const DeepSpeedFile& file, const std::vector<torch::optim::OptimizerParamGroup>& groups,
    const DummyOptimOptions& dummy, const ModelsOfOptimizer& models);

}  // namespace accelerate::detail
