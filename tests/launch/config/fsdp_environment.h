// The variables that decide a sharded training, for tests.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/support.h"

namespace accelerate::testing {

/// While alive, every variable that resolve() reads is as `variables` say, and unset when they do
/// not name it.
class FsdpEnvironment {
 public:
  explicit FsdpEnvironment(const std::map<std::string, std::string>& variables = {}) {
    for (const char* name :
         {"FSDP_VERSION", "FSDP_SHARDING_STRATEGY", "FSDP_RESHARD_AFTER_FORWARD",
          "FSDP_OFFLOAD_PARAMS", "FSDP_AUTO_WRAP_POLICY", "FSDP_TRANSFORMER_CLS_TO_WRAP",
          "FSDP_MIN_NUM_PARAMS", "FSDP_BACKWARD_PREFETCH", "FSDP_STATE_DICT_TYPE",
          "FSDP_FORWARD_PREFETCH", "FSDP_USE_ORIG_PARAMS", "FSDP_CPU_RAM_EFFICIENT_LOADING",
          "FSDP_SYNC_MODULE_STATES", "FSDP_ACTIVATION_CHECKPOINTING",
          "FSDP_ACTIVATION_CHECKPOINTING_OFFLOAD", "FSDP_IGNORED_MODULES",
          "ACCELERATE_FSDP_SHARD_GROUP_SIZE", "ACCELERATE_FSDP_FULL_PARAMETERS"}) {
      const auto value = variables.find(name);
      set_.push_back(std::make_unique<ScopedEnv>(
          name, value == variables.end() ? nullptr : value->second.c_str()));
    }
  }

 private:
  std::vector<std::unique_ptr<ScopedEnv>> set_;
};

}  // namespace accelerate::testing
