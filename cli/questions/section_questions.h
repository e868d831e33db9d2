// The questions that fill sections of a configuration file, a function for each section.
#pragma once

#include "accelerate/launch/config/cluster_config.h"
#include "cli/questions/asking.h"

namespace accelerate::cli {

/// Asks for DeepSpeed's JSON file, or for stage, offloading and clipping; with several machines
/// also for what starts them.
void ask_about_deepspeed(Asking& ask, const ClusterConfig& config);
void ask_about_fsdp(Asking& ask);
/// Asks for the sizes of parallel groups, which FSDP 2 can be combined with.
void ask_about_parallelism(Asking& ask);
void ask_about_megatron_lm(Asking& ask);
/// Asks about torch.compile.
void ask_about_dynamo(Asking& ask);
void ask_about_fp8(Asking& ask, Fp8Config& fp8);
void ask_about_tpu(Asking& ask, ClusterConfig& config);

}  // namespace accelerate::cli
