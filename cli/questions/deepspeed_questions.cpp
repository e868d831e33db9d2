#include "cli/questions/interview.h"

namespace accelerate::cli {
namespace {

void ask_about_offloading(Asking& ask, const std::string& stage) {
  const std::string state =
      ask.menu_for("offload_optimizer_device", "Where does the optimizer keep its state?");
  const std::string parameters =
      ask.menu_for("offload_param_device", "Where do the parameters live?");
  if (parameters != "none" && stage != "3")
    ask.tell_for_python("Native programs offload parameters at stage 3 alone.");
  if (parameters == "nvme")
    ask.text_for("offload_param_nvme_path", "Which folder takes the parameters?", "/nvme");
  if (state == "nvme")
    ask.text_for("offload_optimizer_nvme_path", "Which folder takes the optimizer's state?",
                 "/nvme");
}

void ask_about_zero(Asking& ask) {
  const std::string stage = ask.menu("Which stage of ZeRO?", {"0", "1", "2", "3"}, "2",
                                     "0: nothing is sharded. 1: the optimizer's state. 2: "
                                     "gradients too. 3: parameters too. " +
                                         help_of("zero_stage"));
  ask.set("zero_stage", stage);
  if (stage >= "2") ask_about_offloading(ask, stage);
  ask.number_for("gradient_accumulation_steps", "How many batches make a step?", "1");
  if (ask.yes("Clip gradients?", false, help_of("gradient_clipping")))
    ask.text_for("gradient_clipping", "To which norm?", "1.0");
  if (stage == "3")
    ask.yes_for("zero3_save_16bit_model", "Save the model's weights in 16 bits?", false);
}

void ask_about_launcher(Asking& ask) {
  const std::string launcher =
      ask.menu_for("deepspeed_multinode_launcher", "What starts the other machines?");
  if (launcher == "standard") return;
  ask.text_for("deepspeed_hostfile", "Which file lists the hosts and their GPUs?");
  if (ask.yes("Leave some hosts or GPUs out?", false, help_of("deepspeed_exclusion_filter")))
    ask.optional_text_for("deepspeed_exclusion_filter", "Which ones are left out?");
  if (ask.yes("Take only some hosts or GPUs?", false, help_of("deepspeed_inclusion_filter")))
    ask.optional_text_for("deepspeed_inclusion_filter", "Which ones are taken?");
}

}  // namespace

void ask_about_deepspeed(Asking& ask, const ClusterConfig& config) {
  if (ask.yes("Is there a JSON file for DeepSpeed?", false, help_of("deepspeed_config_file"))) {
    ask.text_for("deepspeed_config_file", "Which file is it?", "none");
  } else {
    ask_about_zero(ask);
  }
  ask.yes_for("zero3_init_flag", "Shard parameters while the model is made (stage 3)?", false);
  if (ask.yes("Does the model have mixtures of experts?", false,
              help_of("deepspeed_moe_layer_cls_names")))
    ask.optional_text_for("deepspeed_moe_layer_cls_names",
                          "Which classes are they, separated by commas? Nothing: units by size.");
  if (config.num_machines > 1) ask_about_launcher(ask);
}

}  // namespace accelerate::cli
