// What of a model is computed again in backward instead of being kept.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accelerate {

/// Gradient checkpointing (activation checkpointing) of a prepared model. Its units keep their inputs
/// and drop what autograd would save inside them; backward runs their operators again. Gradients,
/// buffers and random states are equal to the bit. See docs/memory.md.
struct GradientCheckpointing {
  enum class Keep : std::uint8_t {
    nothing,   ///< A unit keeps its inputs alone.
    products,  ///< It also keeps results of matrix products, convolutions and attention.
  };

  /// The units: classes ("BertLayer", without namespace and Impl) or names of modules
  /// ("encoder.layer.0"; '*' stands for any text without a dot). Default: with FSDP the units of its
  /// wrap policy; else the classes that the model says stay whole; else modules that have a sibling
  /// of the same class and modules of their own, as the blocks of a transformer.
  std::vector<std::string> units = {};
  Keep keep = Keep::nothing;
  /// Every so many units one is computed again; 1: all.
  std::int64_t every = 1;
  /// Inputs of units wait for backward in the host's memory. Has no effect on a CPU, where they are.
  bool offload = false;

  bool operator==(const GradientCheckpointing&) const = default;
};

}  // namespace accelerate
