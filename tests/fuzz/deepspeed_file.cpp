// A file of DeepSpeed is refused with a ConfigError, or gives settings within their ranges.
#include <cstdlib>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/launch/config/resolved_deepspeed.h"

namespace {

using namespace accelerate;

void check(const ResolvedDeepSpeed& settings) {
  const bool has_batch = settings.micro_batch_size.value_or(1) >= 1;
  const bool has_steps = settings.gradient_accumulation_steps.value_or(1) >= 1;
  if (!has_batch || !has_steps || settings.gradient_clipping < 0 ||
      settings.sharding.offload.max_in_cpu < 0)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return setenv("ACCELERATE_LOG_LEVEL", "error", 1);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Other texts might name a file of this machine.
  const std::string text = "{" + std::string(reinterpret_cast<const char*>(data), size);
  try {
    check(resolve_deepspeed({.hf_ds_config = text}, {.num_processes = 2}));
  } catch (const ConfigError&) {
  }
  return 0;
}
