// The flags without a key of a section, and the whole table; flags of keys are in
// config/section_tables.cpp. Names, defaults and choices are upstream's (accelerate 1.15.0,
// commands/launch.py); a test compares them with its parser. The sentences are ours.
#include "accelerate/launch/config/key_table.h"
#include "accelerate/launch/flags.h"

namespace accelerate {
namespace {

using enum FlagKind;
using enum FlagStatus;
using Rows = std::vector<Flag>;

// One flag a line: a table is read down its columns.
// clang-format off
Rows general_rows() {
  const auto group = FlagGroup::general;
  return {
      {"config_file", text, group, "", "Configuration file to take values from; the default is the one that `accelerate config` writes.", works},
      {"quiet", toggle, group, "False", "Do not report which rank failed; the exit code stays.", works, {}, 'q'},
      {"debug", toggle, group, "False", "Say where ranks run; have them refuse tensors of another device than theirs in collectives.", works, {}, '\0', "ACCELERATE_DEBUG_MODE"},
      {"module", toggle, group, "False", "The program is a Python module, run as `python3 -m`.", works, {}, 'm'},
      {"no_python", toggle, group, "False", "Run a .py file itself instead of handing it to python3.", works},
      {"grace_period", number, group, "30.0", "Seconds that ranks get between SIGTERM and SIGKILL.", works},
  };
}

Rows hardware_rows() {
  const auto group = FlagGroup::hardware;
  return {
      {"cpu", toggle, group, "False", "Train on the CPU even where there are GPUs.", works, {}, '\0', "ACCELERATE_USE_CPU"},
      {"multi_gpu", toggle, group, "False", "Train on several GPUs.", works},
      {"tpu", toggle, group, "False", "Train on TPUs.", not_applicable},
  };
}

Rows resource_rows() {
  const auto group = FlagGroup::resources;
  return {
      {"num_processes", integer, group, "", "Number of ranks to start; the default is one a GPU, or one.", works},
      {"num_machines", integer, group, "", "Number of machines; only 1 so far.", later},
      {"mixed_precision", choice, group, "", "Type that the forward pass computes in.", works, {"no", "fp16", "bf16", "fp8"}, '\0', "ACCELERATE_MIXED_PRECISION"},
      {"num_cpu_threads_per_process", integer, group, "", "OMP_NUM_THREADS of each rank; the default is OMP_NUM_THREADS, or physical cores divided by ranks on the CPU.", works, {}, '\0', "OMP_NUM_THREADS"},
      {"enable_cpu_affinity", toggle, group, "False", "Bind each rank to cores of its own, as several ranks on the CPU are by default; on GPUs to the cores near its GPU.", works, {}, '\0', "ACCELERATE_CPU_AFFINITY"},
      {"no_cpu_affinity", toggle, group, "False", "Leave it to the system which cores a rank runs on.", works, {}, '\0', "ACCELERATE_CPU_AFFINITY"},
      {"gpu_ids", text, group, "", "GPUs to use on this machine, as 0,2,3 or all.", works, {}, '\0', "CUDA_VISIBLE_DEVICES"},
  };
}

Rows paradigm_rows() {
  const auto group = FlagGroup::paradigm;
  return {
      {"use_fsdp", toggle, group, "False", "Shard parameters, gradients and optimizer state (FSDP).", works},
      {"use_deepspeed", toggle, group, "False", "Use DeepSpeed's ZeRO settings.", works},
      {"use_megatron_lm", toggle, group, "False", "Use Megatron-LM's settings, which Python programs read; native ones refuse them.", works},
      {"use_parallelism_config", toggle, group, "False", "Combine kinds of parallelism in a Python program; native ones refuse it. Needs --use_fsdp and --fsdp_version 2.", works},
  };
}

Rows rendezvous_rows() {
  const auto group = FlagGroup::rendezvous;
  return {
      {"main_process_ip", text, group, "", "Address that rank 0 listens on; the default is 127.0.0.1.", works},
      {"main_process_port", integer, group, "", "Port that rank 0 listens on; the default, and 0, is a free one.", works},
      {"machine_rank", integer, group, "", "Number of this machine among several.", later},
      {"same_network", toggle, group, "False", "All machines are on one local network.", no_effect},
      {"rdzv_backend", text, group, "static", "How machines find each other.", later},
      {"rdzv_conf", text, group, "", "Further settings of the rendezvous.", later},
      {"max_restarts", integer, group, "0", "How often to start a failed group again.", later},
      {"monitor_interval", number, group, "0.1", "Seconds between looks at the ranks; they are watched without polling here.", no_effect},
      {"tee", text, group, "0", "Copy what ranks write into files.", later, {}, 't'},
      {"log_dir", text, group, "", "Folder for the output of ranks.", later},
      {"role", text, group, "default", "Name of the group, exported as ROLE_NAME.", works},
  };
}

Rows foreign_rows() {
  return {
      {"tpu_cluster", toggle, FlagGroup::tpu, "False", "Use a TPU pod.", not_applicable},
      {"no_tpu_cluster", toggle, FlagGroup::tpu, "False", "Do not use a TPU pod.", no_effect},
      {"tpu_use_sudo", toggle, FlagGroup::tpu, "False", "Use sudo on the pod.", not_applicable},
      {"vm", text, FlagGroup::tpu, "", "Machine of the pod.", not_applicable},
      {"env", text, FlagGroup::tpu, "", "Variable for the pod.", not_applicable},
      {"main_training_function", text, FlagGroup::tpu, "", "Function that TPU processes run.", no_effect},
      {"downcast_bf16", toggle, FlagGroup::tpu, "False", "Store fp32 as bf16 on TPUs.", not_applicable},
      {"aws_access_key_id", text, FlagGroup::aws, "", "Key of an Amazon account.", not_applicable},
      {"aws_secret_access_key", text, FlagGroup::aws, "", "Secret of that key.", not_applicable},
  };
}

// clang-format on
// Returns the flags of a section's keys, in the order of its table.
template <typename Section>
Rows rows_of(const detail::KeyTable<Section>& table, FlagGroup group) {
  Rows rows;
  for (const auto& key : table.keys) {
    if (!key.rules.flag) continue;
    const KeyFlag& flag = *key.rules.flag;
    rows.push_back({.name = key.name,
                    .kind = flag.kind,
                    .group = group,
                    .fallback = flag.fallback,
                    .help = key.doc,
                    .status = flag.status,
                    .choices = flag.choices.empty() ? key.choices : flag.choices,
                    .variable = flag.variable});
    if (flag.kind != choice) rows.back().choices.clear();
  }
  return rows;
}

Rows all_rows() {
  Rows all;
  for (const auto& rows : {general_rows(), hardware_rows(), resource_rows(),
                           rows_of(detail::dynamo_table(), FlagGroup::resources), paradigm_rows(),
                           rendezvous_rows(), rows_of(detail::fsdp_table(), FlagGroup::fsdp),
                           rows_of(detail::deepspeed_table(), FlagGroup::deepspeed),
                           rows_of(detail::megatron_lm_table(), FlagGroup::megatron),
                           rows_of(detail::parallelism_table(), FlagGroup::parallelism),
                           rows_of(detail::fp8_table(), FlagGroup::fp8),
                           rows_of(detail::mpirun_table(), FlagGroup::mpi), foreign_rows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace

std::span<const Flag> launch_flags() {
  static const Rows rows = all_rows();
  return rows;
}

}  // namespace accelerate
