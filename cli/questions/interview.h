// The questions of `accelerate config`, and the file that the answers make.
#pragma once

#include <string>
#include <vector>

#include "accelerate/formats/documents/document.h"
#include "accelerate/launch/config/cluster_config.h"
#include "cli/questions/asking.h"

namespace accelerate::cli {

/// A configuration file that is not written yet.
struct ConfigDraft {
  std::string yaml, json;   ///< The file in both of its forms.
  std::vector<Note> notes;  ///< What was told during the interview.
};

/// Asks all questions, in the order and with the defaults of the original. Says immediately what
/// this version cannot start. Source: `commands/config/config.py` of Accelerate.
[[nodiscard]] ConfigDraft interview(Respondent& respondent);

/// Asks about this machine and others like it. Source: `commands/config/cluster.py`.
///
/// Differs from the original in three ways. It asks for FSDP on CPUs too, which works here. It does
/// not ask for DeepSpeed and FSDP on Neuron cores, where the original raises. It asks for at least
/// two GPUs where several are said to be there.
[[nodiscard]] ClusterConfig interview_about_machines(Respondent& respondent);

/// Asks about Amazon SageMaker. Source: `commands/config/sagemaker.py`. The original can make a
/// role there; this version takes the name of an existing role.
[[nodiscard]] Node interview_about_sagemaker(Respondent& respondent);

// The questions that fill sections of a configuration file, a function for each section.

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

}  // namespace accelerate::cli
