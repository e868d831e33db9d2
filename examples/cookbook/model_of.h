// The model of a folder or of the hub. A folder without weights, such as data/tiny_bert, gives a
// model that has learnt nothing yet, so that the programs run without a download.
#pragma once

#include <accelerate/transformers/models/auto_model.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

/// `Auto`: AutoModelForCausalLM and so on. `labels`: the classes of a new head, if it has classes.
template <typename Auto>
std::shared_ptr<accelerate::PreTrainedModel> model_of(const std::string& name,
                                                      const std::vector<std::string>& labels = {}) {
  const std::filesystem::path folder = name;
  const bool is_untrained = exists(folder / "config.json") && !exists(folder / "model.safetensors");
  if (!is_untrained) return Auto::from_pretrained(name, {.id2label = labels});
  auto config = accelerate::AutoConfig::from_pretrained(name);
  if (!labels.empty()) config.set_labels(labels);
  return Auto::from_config(config);
}
