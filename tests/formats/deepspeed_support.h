// What the tensors of a checkpoint of DeepSpeed are.
#pragma once

#include <map>
#include <span>
#include <string>

#include "accelerate/formats/shards/deepspeed_checkpoint.h"

namespace accelerate::testing {

struct HeldTensor {
  TensorSpec spec;
  std::string bytes;
};
using HeldTensors = std::map<std::string, HeldTensor>;

/// Reads every byte of a catalogue.
inline HeldTensors tensors_of(const ShardCatalogue& catalogue) {
  HeldTensors all;
  for (const auto& tensor : catalogue.tensors()) {
    auto& held = all[tensor.name];
    held.spec = tensor;
    ShardCatalogue::stream(tensor, [&](std::span<const std::byte> piece) {
      held.bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    });
  }
  return all;
}

}  // namespace accelerate::testing
