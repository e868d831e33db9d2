#include "accelerate/config/retired_keys.h"

#include <algorithm>
#include <map>

#include "accelerate/base/text.h"

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

// Older versions had a type of their own for Apple's GPUs, which one process uses.
void take_type_of_apple(Node& root, std::vector<RetiredKey>& taken) {
  for (NodeEntry& entry : root.entries) {
    const bool is_apple = entry.key == "distributed_type" && entry.value.is_scalar() &&
                          lower(entry.value.text) == "mps";
    if (!is_apple) continue;
    taken.push_back({"distributed_type: MPS", entry.line, "was for Apple's GPUs"});
    entry.value = Node::string("NO");
  }
}

}  // namespace

std::string describe(const RetiredKey& key) {
  return "'" + key.key + "' (line " + std::to_string(key.line) + ") " + key.purpose;
}

std::vector<RetiredKey> detail::take_retired_keys(Node& root) {
  std::vector<RetiredKey> taken;
  take_type_of_apple(root, taken);
  take_from(root, "", taken);
  for (NodeEntry& entry : root.entries)
    if (entry.value.is_map()) take_from(entry.value, entry.key, taken);
  std::ranges::stable_sort(taken, {}, &RetiredKey::line);
  return taken;
}

}  // namespace accelerate
