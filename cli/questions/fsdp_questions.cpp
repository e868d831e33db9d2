// The questions about FSDP and about other ways to divide a model.
#include "cli/questions/interview.h"

namespace accelerate::cli {
namespace {

void ask_about_strategy(Asking& ask) {
  const auto names = enum_names<ShardingStrategy>();
  const std::string strategy =
      ask.menu("What is sharded?", names, names.front(),
               "FULL_SHARD: parameters, gradients and the optimizer's state. SHARD_GRAD_OP: "
               "gradients and state, and parameters outside a step. NO_SHARD: nothing. HYBRID_…: "
               "as the first two within a machine, with a replica on each machine. It is the key "
               "'fsdp_reshard_after_forward' of the file.");
  ask.set("fsdp_reshard_after_forward", strategy);
}

void ask_about_units(Asking& ask) {
  const std::string policy =
      ask.menu_for("fsdp_auto_wrap_policy", "What makes a unit of the model?");
  if (policy == "SIZE_BASED_WRAP")
    ask.number_for("fsdp_min_num_params", "How many parameters has the smallest unit?",
                   "100000000");
  if (policy != "TRANSFORMER_BASED_WRAP") return;
  const bool model_says = ask.yes(
      "Shall the model say which layers are units?", false,
      "Models of Transformers know it (_no_split_modules), and so do the models of this "
      "library. Otherwise they are the key 'fsdp_transformer_layer_cls_to_wrap' of the file.");
  if (!model_says)
    ask.optional_text_for("fsdp_transformer_layer_cls_to_wrap",
                          "Which classes are units (BertLayer, …), separated by commas? Nothing: "
                          "those that the model names.");
}

// Asks for settings that FSDP 2 no longer has.
void ask_about_first_version(Asking& ask) {
  ask.yes_for("fsdp_forward_prefetch", "Gather the next unit during a forward too?", false);
  ask.yes_for("fsdp_use_orig_params", "Keep the parameters as the model names them?", true);
}

void ask_about_loading(Asking& ask, bool is_first) {
  const bool loads_once = ask.yes_for("fsdp_cpu_ram_efficient_loading",
                                      "Shall one process alone read the weights?", true);
  if (!is_first) return;
  if (loads_once)
    ask.set("fsdp_sync_module_states", "true");
  else
    ask.yes_for("fsdp_sync_module_states", "Send the first process's parameters to all?", true);
}

}  // namespace

void ask_about_fsdp(Asking& ask) {
  const std::string version =
      ask.menu("Which version of FSDP?", {"1", "2"}, "2", help_of("fsdp_version"));
  ask.set("fsdp_version", version);
  const bool is_first = version == "1";
  if (is_first)
    ask_about_strategy(ask);
  else
    ask.yes_for("fsdp_reshard_after_forward", "Free gathered parameters behind a forward?", true);
  ask.yes_for("fsdp_offload_params", "Keep parameters and gradients on the CPU?", false);
  ask_about_units(ask);
  if (is_first)
    ask.menu_for("fsdp_backward_prefetch", "When is the next unit of a backward gathered?");
  const std::vector<std::string> of_second{"SHARDED_STATE_DICT", "FULL_STATE_DICT"};
  ask.menu_for("fsdp_state_dict_type", "In which form is state saved?",
               is_first ? std::vector<std::string>() : of_second);
  if (is_first) ask_about_first_version(ask);
  ask_about_loading(ask, is_first);
  ask.yes_for("fsdp_activation_checkpointing", "Compute activations again in the backward?", false);
}

void ask_about_parallelism(Asking& ask) {
  ask.tell_for_python("Native programs refuse sizes of parallel groups.");
  ask.number_for("parallelism_config_dp_replicate_size", "How many replicas of the model?", "1");
  ask.number_for("parallelism_config_dp_shard_size", "How many processes share a replica?", "1");
  ask.number_for("parallelism_config_tp_size",
                 "How many processes split each layer (tensor parallelism)?", "1");
  const auto split_sequences =
      ask.number_for("parallelism_config_cp_size",
                     "How many processes split each sequence (context parallelism)?", "1");
  if (split_sequences > 1)
    ask.menu_for("parallelism_config_cp_comm_strategy", "How do keys and values travel?");
}

void ask_about_megatron_lm(Asking& ask) {
  const auto layers =
      ask.number_for("megatron_lm_tp_degree", "How many processes split each layer?", "1");
  if (layers > 1)
    ask.yes_for("megatron_lm_sequence_parallelism", "Split sequences among them too?", true);
  const auto stages =
      ask.number_for("megatron_lm_pp_degree", "How many stages has the pipeline?", "1");
  if (stages > 1)
    ask.number_for("megatron_lm_num_micro_batches", "How many micro-batches are in it?", "1");
  ask.yes_for("megatron_lm_recompute_activations", "Compute activations again in the backward?",
              true);
  ask.yes_for("megatron_lm_use_distributed_optimizer", "Shard the optimizer's state?", true);
  ask.text_for("megatron_lm_gradient_clipping", "Clip gradients to which norm? 0 for none.", "1.0");
}

}  // namespace accelerate::cli
