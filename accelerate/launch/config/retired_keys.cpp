#include "accelerate/launch/config/cluster_config.h"

#include <algorithm>
#include <map>

#include "accelerate/base/text.h"
#include "accelerate/formats/documents/document.h"

namespace accelerate {
namespace {

constexpr const char* kOfSageMaker = "was for Amazon SageMaker";

struct Retired {
  const char* section;  // "" at the top level.
  const char* name;
  const char* purpose;
};

// Source: the data classes and questionnaires of Hugging Face Accelerate since 0.9.
constexpr Retired kRetired[] = {
    {"", "ipex_config", "was for Intel's extension of PyTorch"},
    {"", "ipex", "was for Intel's extension of PyTorch"},
    {"", "use_ipex", "was for Intel's extension of PyTorch"},
    {"", "use_xpu", "was for Intel's GPUs"},
    {"", "use_mps_device", "was for Apple's GPUs"},
    {"", "fp16_opt_level", "was for Apex"},
    {"", "tpu_cluster", "was for TPUs"},
    {"", "tp_config",
     "was for tensor parallelism, which newer versions call 'tp_size' in 'parallelism_config'"},
    {"", "additional_args", kOfSageMaker},
    {"", "base_job_name", kOfSageMaker},
    {"", "ec2_instance_type", kOfSageMaker},
    {"", "iam_role_name", kOfSageMaker},
    {"", "image_uri", kOfSageMaker},
    {"", "profile", kOfSageMaker},
    {"", "py_version", kOfSageMaker},
    {"", "pytorch_version", kOfSageMaker},
    {"", "region", kOfSageMaker},
    {"", "sagemaker_inputs_file", kOfSageMaker},
    {"", "sagemaker_metrics_file", kOfSageMaker},
    {"", "transformers_version", kOfSageMaker},
    {"fsdp_config", "fsdp_limit_all_gathers", "was for PyTorch's rate of gathers"},
    {"fsdp_config", "limit_all_gathers", "was for PyTorch's rate of gathers"},
};

const Retired* find_retired(const std::string& section, const std::string& name) {
  const auto found = std::ranges::find_if(
      kRetired, [&](const Retired& one) { return section == one.section && name == one.name; });
  return found == std::end(kRetired) ? nullptr : &*found;
}

void take_from(Node& map, const std::string& section, std::vector<RetiredKey>& taken) {
  std::erase_if(map.entries, [&](const NodeEntry& entry) {
    const Retired* retired = find_retired(section, entry.key);
    if (retired == nullptr) return false;
    taken.push_back({entry.key, entry.line, retired->purpose});
    return true;
  });
}

struct RetiredWord {
  const char* section;  // "" at the top level.
  const char* key;
  const char* word;
  const char* purpose;
  const char* today;  // The word that is read instead; "" reads the key as absent.
};

constexpr const char* kOfOldCompilers = "was for a compiler that PyTorch no longer has";

// Words that newer versions refuse. Source: the enumerations of Hugging Face Accelerate since 0.13.
constexpr RetiredWord kRetiredWords[] = {
    {"", "distributed_type", "MPS", "was for Apple's GPUs", "NO"},
    {"dynamo_config", "dynamo_backend", "NVFUSER", kOfOldCompilers, ""},
    {"dynamo_config", "dynamo_backend", "AOT_NVFUSER", kOfOldCompilers, ""},
    {"dynamo_config", "dynamo_backend", "AOT_CUDAGRAPHS", kOfOldCompilers, ""},
    {"dynamo_config", "dynamo_backend", "IPEX", "was for Intel's extension of PyTorch", ""},
};

// Before 0.15 `dynamo_backend` stood at the top level. In its section it may lack the prefix.
bool is_at(const RetiredWord& word, const std::string& section, const std::string& key) {
  if (key == word.key) return section == word.section || section.empty();
  return section == word.section && section == "dynamo_config" && "dynamo_" + key == word.key;
}

void take_words_from(Node& map, const std::string& section, std::vector<RetiredKey>& taken) {
  std::erase_if(map.entries, [&](NodeEntry& entry) {
    const auto found = std::ranges::find_if(kRetiredWords, [&](const RetiredWord& word) {
      return is_at(word, section, entry.key) && entry.value.is_scalar() &&
             lower(entry.value.text) == lower(word.word);
    });
    if (found == std::end(kRetiredWords)) return false;
    taken.push_back({entry.key + ": " + found->word, entry.line, found->purpose});
    entry.value = Node::string(found->today);
    return entry.value.text.empty();
  });
}

}  // namespace

std::string describe(const RetiredKey& key) {
  return "'" + key.key + "' (line " + std::to_string(key.line) + ") " + key.purpose;
}

std::vector<RetiredKey> detail::take_retired_keys(Node& root) {
  std::vector<RetiredKey> taken;
  const auto take = [&](Node& map, const std::string& section) {
    take_from(map, section, taken);
    take_words_from(map, section, taken);
  };
  take(root, "");
  for (NodeEntry& entry : root.entries)
    if (entry.value.is_map()) take(entry.value, entry.key);
  std::ranges::stable_sort(taken, {}, &RetiredKey::line);
  return taken;
}

}  // namespace accelerate
