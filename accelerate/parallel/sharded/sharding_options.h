// How a model is divided, as the engine gets it.
#pragma once

#include <c10/core/Device.h>

#include "accelerate/launch/config/fsdp_settings.h"

namespace accelerate {

struct ShardingOptions {
  FsdpSettings settings = {};
  c10::Device device = c10::Device(c10::kCPU);  ///< Where the model computes.
  int ranks_of_host = 0;  ///< With HYBRID_*: ranks that share a model; 0: all.
};

}  // namespace accelerate
