// The questions about this machine and others like it, in the original's order.
#include <algorithm>
#include <array>
#include <filesystem>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/launch/settings.h"
#include "cli/questions/interview.h"

namespace accelerate::cli {
namespace {

// A kind of machine, and the name of what its processes run on.
struct MachineKind {
  const char* name;
  DistributedType type;
  const char* units;
};
constexpr std::array kKinds = {
    MachineKind{"No distributed training", DistributedType::NO, "GPUs"},
    MachineKind{"multi-CPU", DistributedType::MULTI_CPU, "processes"},
    MachineKind{"multi-XPU", DistributedType::MULTI_XPU, "XPUs"},
    MachineKind{"multi-HPU", DistributedType::MULTI_HPU, "HPUs"},
    MachineKind{"multi-GPU", DistributedType::MULTI_GPU, "GPUs"},
    MachineKind{"multi-NPU", DistributedType::MULTI_NPU, "NPUs"},
    MachineKind{"multi-MLU", DistributedType::MULTI_MLU, "MLUs"},
    MachineKind{"multi-SDAA", DistributedType::MULTI_SDAA, "SDAAs"},
    MachineKind{"multi-MUSA", DistributedType::MULTI_MUSA, "MUSAs"},
    MachineKind{"multi-NEURON", DistributedType::MULTI_NEURON, "Neuron cores"},
    MachineKind{"TPU", DistributedType::XLA, "TPU cores"},
};

// Replaces the "~" of "~/x" by the home directory, as the original does.
std::string with_home(const std::string& file) {
  const auto home = env("HOME");
  return home && (file == "~" || file.starts_with("~/")) ? *home + file.substr(1) : file;
}

// Returns how many processes the sizes of all groups need together.
std::int64_t processes_of_groups(const ParallelismConfig& groups) {
  std::int64_t product = 1;
  for (const auto& size :
       {groups.dp_replicate_size, groups.dp_shard_size, groups.tp_size, groups.cp_size})
    product *= std::max(size.value_or(1), 1);
  return product;
}

void ask_about_commands(Asking& ask, ClusterConfig& config) {
  if (ask.yes("Are they in a file?", false, help_of("command_file"))) {
    const std::string file = ask.text("Which file?", "", help_of("command_file"));
    config.command_file = std::filesystem::absolute(file).lexically_normal().string();
    return;
  }
  config.commands.emplace();
  do {
    config.commands->push_back(ask.text("Which command?", "", help_of("commands")));
  } while (ask.yes("Another command?", false, help_of("commands")));
}

void ask_about_tpu(Asking& ask, ClusterConfig& config) {
  ask.text_for("main_training_function", "Which function of the program trains?", "main");
  if (!ask.yes_for("tpu_use_cluster", "Is it a cluster (a pod)?", false)) return;
  ask.text_for("tpu_name", "What is the cluster called?");
  ask.text_for("tpu_zone", "In which zone is it?");
  ask.yes_for("tpu_use_sudo", "Run commands there by sudo?", false);
  if (ask.yes("Are there commands to run on it first?", false, help_of("commands")))
    ask_about_commands(ask, config);
  config.tpu_vm =
      ask.list("Which virtual machines, separated by commas, if not all?", help_of("tpu_vm"));
  config.tpu_env = ask.list("Which environment variables to set there, separated by commas?",
                            help_of("tpu_env"));
}

class MachineInterview {
 public:
  explicit MachineInterview(Respondent& respondent) : ask_(respondent, config_) {}

  ClusterConfig run() {
    ask_kind();
    if (is_several()) ask_machines();
    ask_cpu();
    if (ask_.yes("Compile programs by torch.compile?", false,
                 "What torch.compile is told: the section dynamo_config of the file.")) {
      ask_.tell("Python programs take it. Native ones are compiled already, and ignore it.");
      ask_about_dynamo(ask_);
    }
    ask_division();
    ask_processes();
    if (is_undivided() && !is_tpu() && !config_.use_cpu) ask_gpus();
    ask_rest();
    return config_;
  }

 private:
  [[nodiscard]] bool is(DistributedType type) const { return kind_->type == type; }
  [[nodiscard]] bool is_alone() const { return is(DistributedType::NO); }
  [[nodiscard]] bool is_tpu() const { return is(DistributedType::XLA); }
  [[nodiscard]] bool is_several() const { return !is_alone() && !is_tpu(); }
  /// Whether the model is divided neither by DeepSpeed nor by FSDP nor by Megatron-LM.
  [[nodiscard]] bool is_undivided() const { return config_.distributed_type == kind_->type; }

  void ask_kind() {
    std::vector<std::string> names;
    for (const MachineKind& kind : kKinds) names.emplace_back(kind.name);
    const std::string name =
        ask_.menu("What will you train on?", names, names.front(),
                  "No distributed training: one process, on a GPU if there is one. multi-CPU: "
                  "several processes on CPUs. multi-GPU: a process on each GPU of NVIDIA. The "
                  "others are accelerators of other makers. It is the key 'distributed_type' of "
                  "the file.");
    kind_ =
        std::ranges::find_if(kKinds, [&](const MachineKind& kind) { return kind.name == name; });
    config_.distributed_type = kind_->type;
    config_.num_processes = 1;
    // The original writes these without asking.
    config_.same_network = true;
    config_.downcast_bf16 = std::string("no");
    config_.tpu_env.emplace();
    if (!is_alone() && !is(DistributedType::MULTI_CPU) && !is(DistributedType::MULTI_GPU))
      ask_.tell_for_python("This version starts programs on CPUs and on GPUs of NVIDIA, not on " +
                           std::string(kind_->units) + ".");
  }

  void ask_machines() {
    if (ask_.number_for("num_machines", "How many machines take part?", "1") > 1) ask_meeting();
    ask_.yes_for("debug", "Check the tensors of each collective? It takes time.", false);
  }

  void ask_meeting() {
    ask_.number_for("machine_rank",
                    "What is the rank of this machine, its number among the machines from 0?", "0",
                    [&](std::int64_t rank) {
                      if (rank >= 0 && rank < config_.num_machines) return;
                      throw ConfigError("the machines are numbered 0 to " +
                                        std::to_string(config_.num_machines - 1) + ".");
                    });
    ask_.text_for("main_process_ip", "Which address has the first machine?");
    ask_.number_for("main_process_port", "At which of its ports do the processes meet?", "29500");
    if (!ask_.yes_for("same_network", "Are all machines in one local network?", true))
      ask_.text_for("rdzv_backend", "How do they find each other (static, c10d, …)?", "static");
  }

  void ask_cpu() {
    if (is_alone()) ask_.yes_for("use_cpu", "Train on the CPU even where a GPU is there?", false);
    if (!is(DistributedType::MULTI_CPU)) return;
    config_.use_cpu = true;
    if (!ask_.yes("Shall mpirun start the processes?", false, help_of("mpirun_hostfile"))) return;
    const std::string file =
        ask_.text("Which file lists the hosts?", "~/hostfile", help_of("mpirun_hostfile"));
    config_.mpirun_config.mpirun_hostfile = with_home(file);
  }

  // Asks how a model is divided among the processes.
  void ask_division() {
    const bool is_divisible = !is_tpu() && !is(DistributedType::MULTI_NEURON);
    if (is_divisible && !is(DistributedType::MULTI_CPU) &&
        ask_.yes("Use DeepSpeed?", false,
                 "Shards the optimizer's state, gradients or parameters by ZeRO. Native programs "
                 "do by their own sharding what these settings ask for. Keys: distributed_type, "
                 "and the section deepspeed_config.")) {
      config_.distributed_type = DistributedType::DEEPSPEED;
      ask_about_deepspeed(ask_, config_);
    }
    if (is_divisible && is_several() && is_undivided() &&
        ask_.yes("Use FSDP (FullyShardedDataParallel)?", false,
                 "Each process keeps a share of parameters, gradients and the optimizer's state, "
                 "and gathers a layer when it computes it. Keys: distributed_type, and the section "
                 "fsdp_config.")) {
      config_.distributed_type = DistributedType::FSDP;
      ask_about_fsdp(ask_);
    }
    if (config_.fsdp_config.fsdp_version == 2 &&
        ask_.yes("Set the sizes of parallel groups?", false,
                 "How many processes replicate, shard, split layers or split sequences. They are "
                 "the section parallelism_config of the file."))
      ask_about_parallelism(ask_);
    if (is(DistributedType::MULTI_GPU) && is_undivided() &&
        ask_.yes("Use Megatron-LM?", false,
                 "Tensor, pipeline and sequence parallelism of very large models. Keys: "
                 "distributed_type, and the section megatron_lm_config.")) {
      ask_.tell_for_python("Native programs refuse the settings of Megatron-LM.");
      config_.distributed_type = DistributedType::MEGATRON_LM;
      ask_about_megatron_lm(ask_);
    }
  }

  void ask_processes() {
    if (is_alone() && is_undivided()) return;
    const bool wants_two =
        is(DistributedType::MULTI_GPU) && is_undivided() && config_.num_machines == 1;
    const std::int64_t grouped = processes_of_groups(config_.parallelism_config);
    const std::int64_t least =
        std::max<std::int64_t>({grouped, config_.num_machines, wants_two ? 2 : 1});
    // One process would divide nothing among several.
    const std::int64_t usual =
        grouped > 1 ? grouped : std::max<std::int64_t>(least, is_several() ? 2 : 1);
    const auto check = [&](std::int64_t number) {
      if (number < 2 && wants_two)
        throw ConfigError("for one GPU go back and choose 'No distributed training'.");
      if (number < config_.num_machines)
        throw ConfigError("each machine takes one at least: type " +
                          std::to_string(config_.num_machines) + " or more.");
      if (grouped > 1 && number != grouped)
        throw ConfigError("the parallel groups make " + std::to_string(grouped) +
                          ": type it, or go back and change their sizes.");
    };
    ask_.number_for("num_processes",
                    "How many " + std::string(kind_->units) + " train, on all machines together?",
                    std::to_string(usual), check);
  }

  void ask_gpus() {
    ask_.text_for(
        "gpu_ids",
        "Which " + std::string(kind_->units) + " of this machine, by number, separated by commas?",
        "all", [](const std::string& ids) { (void)parse_gpu_ids(ids, "the answer"); });
    if (is_alone() || is(DistributedType::MULTI_GPU))
      ask_.yes_for("enable_cpu_affinity", "Keep each process on the cores near its GPU?", false);
  }

  void ask_rest() {
    if (is_tpu()) {
      config_.mixed_precision = MixedPrecision::no;
      ask_about_tpu(ask_, config_);
    }
    const bool file_says = config_.deepspeed_config.deepspeed_config_file.has_value();
    if (is_tpu() || file_says) return;
    const std::string precision = ask_.menu_for("mixed_precision", "Which mixed precision?");
    if (precision != "fp8") return;
    ask_.tell_for_python("Native programs refuse fp8.");
    ask_about_fp8(ask_, config_.fp8_config);
  }

  ClusterConfig config_;
  Asking ask_;
  const MachineKind* kind_ = kKinds.data();
};

}  // namespace

ClusterConfig interview_about_machines(Respondent& respondent) {
  return MachineInterview(respondent).run();
}

}  // namespace accelerate::cli
