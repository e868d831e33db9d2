#include <algorithm>
#include <iostream>
#include <set>

#include "accelerate/base/text.h"
#include "accelerate/parallel/sharded/module_tree.h"
#include "accelerate/tensor/construction/init_on_device.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/transformers/models/auto_model.h"
#include "cli/with_libtorch/tasks.h"

namespace accelerate::cli {
namespace {

void list(const std::string& name, std::int64_t elements, std::int64_t bytes, const char* kind) {
  std::cout << "T\t" << name << "\t" << elements << "\t" << bytes << "\t" << kind << "\n";
}

// Lists the buffers that Python's modules keep beside their parameters. Ours compute them where
// they need them.
void list_buffers(const AutoConfig& config) {
  constexpr std::int64_t kWord = 8, kFloat = 4;
  const std::string type = config.model_type();
  const auto positions = config.get<std::int64_t>("max_position_embeddings", 512);
  const bool has_types = type == "bert" || type == "roberta";
  if (has_types || type == "distilbert")
    list("embeddings.position_ids", positions, positions * kWord, "buffer");
  if (has_types) list("embeddings.token_type_ids", positions, positions * kWord, "buffer");
  if (type != "llama" && type != "mistral" && type != "qwen2") return;
  const auto of_heads = config.get<std::int64_t>("hidden_size", 4096) /
                        config.get<std::int64_t>("num_attention_heads", 32);
  const auto rates = config.get<std::int64_t>("head_dim", of_heads) / 2;
  for (const char* name : {"rotary_emb.inv_freq", "rotary_emb.original_inv_freq"})
    list(name, rates, rates * kFloat, "buffer");
}

// Python's DistilBERT does not name modules that stay whole.
bool says_what_stays_whole(const AutoConfig& config) {
  return config.model_type() != "distilbert";
}

}  // namespace

void list_model_types() {
  for (const std::string& type : known_model_types(Task::base)) std::cout << type << "\n";
}

void list_model_tensors(const std::filesystem::path& config) {
  const auto values = AutoConfig::from_pretrained(
      config.has_parent_path() ? config.parent_path().string() : ".", {}, config.filename());
  const auto scope = init_empty_weights();
  const auto model = AutoModel::from_config(values);
  const ModuleView view = view_of(*model);
  std::set<std::string> whole;
  if (says_what_stays_whole(values))
    for (const std::string& name : model->no_split_modules()) whole.insert(name);
  for (const NamedModule& module : view.modules)
    if (whole.contains(detail::class_word(module.class_name)))
      std::cout << "U\t" << module.name << "\n";
  constexpr std::int64_t kFloat = 4;
  for (const auto& [name, tensor] : without_duplicates(view.parameters))
    list(name, tensor.numel(), tensor.numel() * kFloat, "parameter");
  list_buffers(values);
}

}  // namespace accelerate::cli
