// The flags that are not keys of a file, and the whole table; flags of keys are in
// config/section_tables.cpp. Names, defaults and choices are upstream's (accelerate 1.15.0,
// commands/launch.py); a test compares them with its parser. The sentences are ours.
#include <algorithm>

#include "accelerate/launch/config/key_table.h"
#include "accelerate/launch/flags.h"

namespace accelerate {
namespace {

using enum FlagGroup;
using enum FlagKind;
using enum FlagStatus;
using Rows = std::vector<Flag>;

// One flag a line: a table is read down its columns.
// clang-format off
Rows rows_without_key() {
  return {
      {"config_file", text, general, "", "Configuration file to take values from; the default is the one that `accelerate config` writes.", works},
      {"quiet", toggle, general, "False", "Do not report which rank failed; the exit code stays.", works, {}, 'q'},
      {"module", toggle, general, "False", "The program is a Python module, run as `python3 -m`.", works, {}, 'm'},
      {"no_python", toggle, general, "False", "Run a .py file itself instead of handing it to python3.", works},
      {"grace_period", number, general, "30.0", "Seconds that ranks get between SIGTERM and SIGKILL.", works},
      {"tee", text, general, "0", "Write what ranks write into files too: 1 standard output, 2 standard error, 3 both; or for some local ranks, as in 0:3,1:2.", works, {}, 't'},
      {"redirects", text, general, "0", "The same, but into files alone.", works, {}, 'r'},
      {"log_dir", text, general, "", "Folder in which each launch makes one for the files of its ranks.", works},
      {"local_ranks_filter", text, general, "", "Local ranks whose output is shown, as in 0,2; the default is all. Files have it all.", works},
      {"cpu", toggle, hardware, "False", "Train on the CPU even where there are GPUs.", works, {}, '\0', "ACCELERATE_USE_CPU"},
      {"multi_gpu", toggle, hardware, "False", "Train on several GPUs.", works},
      {"tpu", toggle, hardware, "False", "Train on TPUs.", not_applicable},
      {"num_cpu_threads_per_process", integer, resources, "", "OMP_NUM_THREADS of each rank; the default is OMP_NUM_THREADS, or physical cores divided by ranks on the CPU.", works, {}, '\0', "OMP_NUM_THREADS"},
      {"no_cpu_affinity", toggle, resources, "False", "Leave it to the system which cores a rank runs on.", works, {}, '\0', "ACCELERATE_CPU_AFFINITY"},
      {"use_fsdp", toggle, paradigm, "False", "Shard parameters, gradients and optimizer state (FSDP).", works},
      {"use_deepspeed", toggle, paradigm, "False", "Use DeepSpeed's ZeRO settings.", works},
      {"use_megatron_lm", toggle, paradigm, "False", "Use Megatron-LM's settings, which Python programs read; native ones refuse them.", works},
      {"use_parallelism_config", toggle, paradigm, "False", "Combine kinds of parallelism in a Python program; native ones refuse it. Needs --use_fsdp and --fsdp_version 2.", works},
      {"rdzv_conf", text, rendezvous, "", "Time limits of the rendezvous: join_timeout=600,last_call_timeout=30.", works},
      {"max_restarts", integer, rendezvous, "0", "How often to start all ranks again after one has failed.", works},
      {"monitor_interval", number, rendezvous, "0.1", "Seconds between looks of a rank's watch for a hang; the default follows from --hang_limit. The launcher itself notices an ended rank without looking.", works, {}, '\0', "ACCELERATE_MONITOR_INTERVAL"},
      {"hang_limit", number, rendezvous, "", "Seconds that a rank waits in a collective before the report of a hang; 0 for no report; the default is 60, or half of the timeout.", works, {}, '\0', "ACCELERATE_HANG_LIMIT"},
      {"role", text, rendezvous, "default", "Name of the group, exported as ROLE_NAME.", works},
      {"tpu_cluster", toggle, tpu, "False", "Use a TPU pod.", not_applicable},
      {"no_tpu_cluster", toggle, tpu, "False", "Do not use a TPU pod.", no_effect},
      {"vm", text, tpu, "", "Machine of the pod.", not_applicable},
      {"env", text, tpu, "", "Variable for the pod.", not_applicable},
      {"aws_access_key_id", text, aws, "", "Key of an Amazon account.", not_applicable},
      {"aws_secret_access_key", text, aws, "", "Secret of that key.", not_applicable},
  };
}
// clang-format on

// Appends the flags of the keys of a section, in the order of its table.
template <typename Section>
void append_rows(const detail::KeyTable<Section>& table, Rows& rows) {
  for (const auto& key : table.keys) {
    if (!key.rules.flag) continue;
    const KeyFlag& flag = *key.rules.flag;
    rows.push_back({.name = key.name,
                    .kind = flag.kind,
                    .group = table.group.value_or(flag.group),
                    .fallback = flag.fallback,
                    .help = key.doc,
                    .status = flag.status,
                    .choices = flag.choices.empty() ? key.choices : flag.choices,
                    .variable = flag.variable});
    if (flag.kind != choice) rows.back().choices.clear();
  }
}

// Groups stand in the order of FlagGroup. In each, keys come first.
Rows all_rows() {
  Rows all;
  append_rows(detail::cluster_table(), all);
  const Rows others = rows_without_key();
  all.insert(all.end(), others.begin(), others.end());
  detail::for_each_section([&](auto, const auto& table) { append_rows(table, all); });
  std::ranges::stable_sort(all, {}, &Flag::group);
  return all;
}

}  // namespace

std::span<const Flag> launch_flags() {
  static const Rows rows = all_rows();
  return rows;
}

}  // namespace accelerate
