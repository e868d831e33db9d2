// Modules that only give their parts a name.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

namespace accelerate::detail {

/// Registers a module without a forward below `parent`, with the name of Transformers' class, so
/// that parameters get the names of checkpoints: "attention.self.query.weight".
inline torch::nn::Module& part(torch::nn::Module& parent, const std::string& name,
                               const std::string& class_name) {
  return *parent.register_module(name, std::make_shared<torch::nn::Module>(class_name));
}

}  // namespace accelerate::detail
