// Arguments of Transformers 5.23 that belong to Python: its compiler, its worker processes, its
// services.
#include <algorithm>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/transformers/trainer/arguments/argument_table.h"

namespace accelerate::detail {
namespace {

bool is_absent(const Node& node) {
  return node.is_null() || (node.is_scalar() && node.text.empty()) ||
         (node.is_sequence() && node.items.empty()) || (node.is_map() && node.entries.empty());
}

bool says(const Node& node, bool value) {
  return node.is_scalar() && parse_bool(node.text) == value;
}

bool absent_or_false(const Node& node) {
  return is_absent(node) || says(node, false);
}

bool absent_or_true(const Node& node) {
  return is_absent(node) || says(node, true);
}

// PyTorch has two ways of recomputing; gradients are the same with either.
bool is_way_of_recomputing(const Node& node) {
  if (is_absent(node)) return true;
  return node.is_map() && std::ranges::all_of(node.entries, [](const NodeEntry& entry) {
           return entry.key == "use_reentrant";
         });
}

bool is_anything(const Node&) {
  return true;
}

const char* const kNoCompiler =
    "LibTorch has no torch.compile, and results do not depend on it. Leave it out";
const char* const kNoTrackio =
    "Trackio is a service for Python programs. Leave it out, and choose a tracker of `report_to`";
const char* const kThreads =
    "workers are threads here, which live as long as their loader. Leave it out";
const char* const kRecomputing =
    "the models here have one way of computing layers again, which has no options. Leave it out";

}  // namespace

// clang-format off
const std::vector<PythonArgument>& python_arguments() {
  static const std::vector<PythonArgument> kArguments = {
    {"optim_target_modules", Node::null(), true, "It is for optimizers of other packages (GaLore, APOLLO). Leave it out, or pass your own optimizer to the Trainer", is_absent},
    {"gradient_checkpointing_kwargs", Node::null(), true, kRecomputing, is_way_of_recomputing},
    {"activation_checkpointing_kwargs", Node::null(), true, kRecomputing, is_way_of_recomputing},
    {"torch_compile", Node::boolean(false), false, kNoCompiler, absent_or_false},
    {"torch_compile_backend", Node::null(), false, kNoCompiler, is_absent},
    {"torch_compile_mode", Node::null(), false, kNoCompiler, is_absent},
    {"use_liger_kernel", Node::boolean(false), false, "Liger's kernels are for Python, and change no result. Leave it out", absent_or_false},
    {"liger_kernel_config", Node::null(), false, "Liger's kernels are for Python, and change no result. Leave it out", is_absent},
    {"trackio_space_id", Node::null(), false, kNoTrackio, is_absent},
    {"trackio_bucket_id", Node::null(), false, kNoTrackio, is_absent},
    {"trackio_static_space_id", Node::null(), false, kNoTrackio, absent_or_false},
    {"eval_use_gather_object", Node::boolean(false), false, "predictions are gathered whatever they are made of. Leave it out", absent_or_false},
    {"parallelism_config", Node::null(), true, "A Trainer shards models by `fsdp` alone. Leave it out, or write the loop with an Accelerator", is_absent},
    {"dataloader_persistent_workers", Node::boolean(false), false, kThreads, absent_or_false},
    {"dataloader_multiprocessing_context", Node::null(), false, kThreads, is_absent},
    {"dataloader_in_order", Node::boolean(true), false, "batches come in order always. Leave it out", absent_or_true},
    {"debug", Node::sequence(), false, "Python's debuggers of overflow and TPUs are not here; a loss of NaN is seen in the logs. Leave it out", is_absent},
    {"skip_memory_metrics", Node::boolean(true), false, "Memory is not measured by it. Leave it out, and see MemoryMeter of accelerate/watch/profiler/memory_meter.h", absent_or_true},
    {"local_rank", Node::integer(-1), false, "The launcher's environment says which rank this is", is_anything},
  };
  return kArguments;
}
// clang-format on

}  // namespace accelerate::detail
