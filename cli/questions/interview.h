// The questions of `accelerate config`, and the file that their answers make.
#pragma once

#include <string>
#include <vector>

#include "accelerate/config/cluster_config.h"
#include "accelerate/formats/documents/document.h"
#include "cli/questions/question.h"

namespace accelerate::cli {

/// A configuration file that is not written yet.
struct ConfigDraft {
  std::string yaml, json;   ///< The file in each of its forms.
  std::vector<Note> notes;  ///< What was told on the way.
};

/// Asks all questions, in the order and with the defaults of the original. What this version cannot
/// start is told at once. Source: `commands/config/config.py` of Accelerate.
[[nodiscard]] ConfigDraft interview(Respondent& respondent);

/// The questions about this machine and others like it. Source: `commands/config/cluster.py`.
///
/// Ours asks for FSDP on CPUs too, which it can; not for DeepSpeed and FSDP on Neuron cores, where
/// the original raises; and for two GPUs at least where several are said to be there.
[[nodiscard]] ClusterConfig interview_about_machines(Respondent& respondent);

/// The questions about Amazon SageMaker. Source: `commands/config/sagemaker.py`, without making a
/// role there: ours takes the name of one that exists.
[[nodiscard]] Node interview_about_sagemaker(Respondent& respondent);

}  // namespace accelerate::cli
