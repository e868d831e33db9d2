#include "accelerate/parallel/replicated/ddp_kwargs.h"

#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/gradients/comm_hook.h"

namespace accelerate {
namespace {

using Type = DDPCommunicationHookType;

bool is_power_sgd(Type type) {
  return type == Type::power_sgd || type == Type::batched_power_sgd;
}

void check(const DistributedDataParallelKwargs& kwargs) {
  constexpr double kMost = 1 << 20;  // a tebibyte
  if (!(kwargs.bucket_cap_mb > 0 && kwargs.bucket_cap_mb <= kMost)) {
    throw ConfigError("bucket_cap_mb is " + std::to_string(kwargs.bucket_cap_mb) +
                      "; it must be greater than 0 and at most 1048576 (upstream's default is 25)");
  }
  if (kwargs.dim != 0) {
    throw ConfigError("dim is " + std::to_string(kwargs.dim) +
                      "; allowed is 0. It belongs to one process that splits batches over several "
                      "GPUs; here a process has one device, and loaders split along dimension 0.");
  }
  if (is_power_sgd(kwargs.comm_wrapper)) {
    throw ConfigError("comm_wrapper is a PowerSGD; allowed are no, fp16 and bf16");
  }
  if (kwargs.comm_wrapper != Type::no && kwargs.comm_hook == Type::no) {
    throw ConfigError(
        "comm_wrapper is set and comm_hook is no, so there is nothing to wrap; to send gradients "
        "in 16 bits set comm_hook to fp16 or bf16");
  }
  if (!is_power_sgd(kwargs.comm_hook) && kwargs.comm_state_option != PowerSGDOptions{}) {
    throw ConfigError(
        "comm_state_option is set, and only comm_hook power_sgd and batched_power_sgd read it; "
        "choose one of them, or leave comm_state_option out");
  }
}

CommHook unwrapped_hook(const DistributedDataParallelKwargs& kwargs) {
  switch (kwargs.comm_hook) {
    case Type::no:
      return nullptr;
    case Type::fp16:
      return compress_hook(at::kHalf);
    case Type::bf16:
      return compress_hook(at::kBFloat16);
    case Type::power_sgd:
      return power_sgd_hook(kwargs.comm_state_option);
    case Type::batched_power_sgd:
      return batched_power_sgd_hook(kwargs.comm_state_option);
  }
  throw ConfigError("comm_hook is not one of no, fp16, bf16, power_sgd, batched_power_sgd");
}

}  // namespace

std::vector<std::string> given_keywords(const DistributedDataParallelKwargs& kwargs) {
  using Kwargs = DistributedDataParallelKwargs;
  std::vector<std::string> names;
  const auto add = [&, usual = Kwargs()](const char* name, auto keyword) {
    if (kwargs.*keyword != usual.*keyword) names.emplace_back(name);
  };
  add("dim", &Kwargs::dim);
  add("broadcast_buffers", &Kwargs::broadcast_buffers);
  add("bucket_cap_mb", &Kwargs::bucket_cap_mb);
  add("find_unused_parameters", &Kwargs::find_unused_parameters);
  add("check_reduction", &Kwargs::check_reduction);
  add("gradient_as_bucket_view", &Kwargs::gradient_as_bucket_view);
  add("static_graph", &Kwargs::static_graph);
  add("comm_hook", &Kwargs::comm_hook);
  add("comm_wrapper", &Kwargs::comm_wrapper);
  add("comm_state_option", &Kwargs::comm_state_option);
  return names;
}

CommHook make_comm_hook(const DistributedDataParallelKwargs& kwargs) {
  check(kwargs);
  auto hook = unwrapped_hook(kwargs);
  if (kwargs.comm_wrapper == Type::no) return hook;
  return compress_wrapper(kwargs.comm_wrapper == Type::fp16 ? at::kHalf : at::kBFloat16,
                          std::move(hook));
}

}  // namespace accelerate
