// What an Accelerator can be told, and its methods.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/comm/state/gradient_state.h"
#include "accelerate/comm/state/project_configuration.h"
#include "accelerate/data/data_loader.h"
#include "accelerate/launch/config/deepspeed_plugin.h"
#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/launch/config/word.h"
#include "accelerate/optim/accelerated_scheduler.h"
#include "accelerate/optim/precision/autocast.h"
#include "accelerate/optim/precision/grad_scaler.h"
#include "accelerate/parallel/recompute/gradient_checkpointing.h"
#include "accelerate/parallel/replicated/ddp_kwargs.h"
#include "accelerate/watch/profiler/profiler.h"
#include "accelerate/watch/trackers/trackers.h"

namespace accelerate {

struct InitProcessGroupKwargs {
  std::optional<std::chrono::milliseconds> timeout = {};  ///< Of a collective; default 30 minutes.
  /// "gloo" or "nccl". Default: nccl on GPUs, gloo on the CPU.
  std::string backend = {};
};

struct AcceleratorOptions {
  /// Whether prepare() moves models, optimizer state and batches to device().
  bool device_placement = true;
  /// Micro-batches per step. ACCELERATE_GRADIENT_ACCUMULATION_STEPS overrides it.
  int gradient_accumulation_steps = 1;
  /// The type that prepared forwards compute in. Default: ACCELERATE_MIXED_PRECISION, else `no`. A
  /// CPU that is slow in 16 bits computes in fp32 instead, unless ACCELERATE_CPU_HALF is `native`.
  std::optional<Word<MixedPrecision>> mixed_precision = std::nullopt;
  bool cpu = false;  ///< Stay on the CPU even where there is a GPU.
  /// Trackers, by name (tensorboard, jsonl, csv, mlflow, "all") or as objects of your own.
  /// init_trackers() starts them.
  std::vector<LogWith> log_with = {};
  /// Where trackers write, unless project_config says otherwise.
  std::filesystem::path project_dir = {};
  ProjectConfiguration project_config = {};
  /// Replaces gradient_accumulation_steps and adds further settings.
  std::optional<GradientAccumulationPlugin> gradient_accumulation_plugin = std::nullopt;
  /// If true, schedules advance only when their optimizer stepped. If false, each scheduler.step()
  /// advances them.
  bool step_scheduler_with_optimizer = true;
  /// Whether one optimizer step advances a schedule once per rank (the default, as upstream) or
  /// once.
  std::optional<SchedulerStep> scheduler_step = std::nullopt;
  AutocastKwargs autocast = {};
  GradScalerKwargs grad_scaler = {};
  DataLoaderConfiguration dataloader_config = {};
  /// Generators whose state rank 0 sends to the other ranks when a prepared loader begins a pass.
  std::vector<RngType> rng_types = {RngType::generator};
  DistributedDataParallelKwargs ddp = {};
  /// Shards models over the ranks instead of giving every rank a copy. Default: as the launcher
  /// asks (ACCELERATE_USE_FSDP). See docs/fsdp.md.
  std::optional<FullyShardedDataParallelPlugin> fsdp_plugin = std::nullopt;
  /// Shards models by DeepSpeed's settings and its JSON file. Default: as the launcher asks
  /// (ACCELERATE_USE_DEEPSPEED). See docs/deepspeed.md.
  std::optional<DeepSpeedPlugin> deepspeed_plugin = std::nullopt;
  /// Several, by names, for models that are sharded differently. The first is active until
  /// select_deepspeed_plugin() names another. They must agree on precision and loss scale.
  std::vector<std::pair<std::string, DeepSpeedPlugin>> deepspeed_plugins = {};
  /// Which parts of prepared models compute their activations again in backward instead of keeping
  /// them: less memory for a second forward. `GradientCheckpointing{}` chooses them. Default: none,
  /// unless fsdp_plugin or the launcher asks for activation_checkpointing. See docs/memory.md.
  std::optional<GradientCheckpointing> gradient_checkpointing = std::nullopt;
  InitProcessGroupKwargs init_process_group = {};
  ProfileKwargs profile = {};
  /// A group to use instead of the one that the environment describes.
  std::shared_ptr<Communicator> communicator = nullptr;
};

struct BackwardOptions {
  bool retain_graph = false;  ///< Keep the graph for another backward.
  bool create_graph = false;  ///< Make the gradients differentiable.
  /// The number of items (tokens) that `loss` sums over. The gradients of the window become the
  /// gradients of (sum of all its losses) / (items of all ranks), even if micro-batches differ in
  /// size. Call backward() once per micro-batch.
  std::optional<std::int64_t> num_items = std::nullopt;
};

template <typename Batch>
struct PrepareLoaderOptions {
  /// Whether batches are moved to device(). Default: as the Accelerator does.
  std::optional<bool> device_placement = std::nullopt;
  /// For loaders that dispatch: returns a rank's part of the batch that rank 0 has read.
  std::function<Batch(const Batch&, const DispatchSlice&)> slice_fn_for_dispatch = nullptr;
  /// For loaders that dispatch: makes ragged batches fit together, e.g. PadToLongest{}.
  std::function<void(std::vector<Batch>&)> pad_fn = nullptr;
};

}  // namespace accelerate
