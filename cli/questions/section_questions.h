// The questions that fill one section of a configuration file each.
#pragma once

#include "accelerate/config/cluster_config.h"
#include "cli/questions/asking.h"

namespace accelerate::cli {

/// DeepSpeed's JSON file, or stage, offloading, clipping; with several machines what starts them.
void ask_about_deepspeed(Asking& ask, const ClusterConfig& config);
void ask_about_fsdp(Asking& ask);
/// Sizes of parallel groups, which FSDP 2 may have beside it.
void ask_about_parallelism(Asking& ask);
void ask_about_megatron_lm(Asking& ask);
/// Of torch.compile.
void ask_about_dynamo(Asking& ask);
void ask_about_fp8(Asking& ask, Fp8Config& fp8);
void ask_about_tpu(Asking& ask, ClusterConfig& config);

}  // namespace accelerate::cli
