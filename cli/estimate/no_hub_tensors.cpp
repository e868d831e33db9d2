// Built instead of hub_tensors.cpp where hub/ is not built.
#include "accelerate/base/error.h"
#include "cli/estimate/model_tensors.h"

namespace accelerate::cli {

ModelTensors tensors_of_repository(const std::string& id, const std::string&) {
  throw ConfigError("'" + id +
                    "' is neither a file nor a folder, and the hub is not in this build. Build "
                    "with -DACCELERATE_BUILD_TOKENIZERS=ON");
}

}  // namespace accelerate::cli
