#include "accelerate/base/error.h"
#include "accelerate/transformers/hub/model_card.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate {
namespace {

// Returns a short model card for its owner to fill in. A Trainer writes a card with its results.
std::string card_of(const PreTrainedModel& model, const std::string& repo_id) {
  ModelCard card;
  card.library_name = "transformers";
  card.tags = {"accelerate.cpp", model.config().model_type()};
  std::erase(card.tags, "");
  card.text = "\n# " + repo_id.substr(repo_id.find('/') + 1) + "\n\nThe weights of a `" +
              model.config().model_type() +
              "` model in safetensors, which Transformers and accelerate.cpp open.\n";
  return write_model_card(card);
}

}  // namespace

CommitInfo PreTrainedModel::push_to_hub(const std::string& repo_id, const PushToHubOptions& options,
                                        const SavePretrainedOptions& saving) const {
  const auto save = [&](const std::filesystem::path& folder) { save_pretrained(folder, saving); };
  if (!saving.is_main_process) {  // Helps to gather divided weights, and writes nothing.
    save({});
    return {};
  }
  PushToHubOptions model = options;
  model.hub.type = RepoType::model;
  return detail::push(repo_id, {.what = "model", .write = save, .card = card_of(*this, repo_id)},
                      model);
}

}  // namespace accelerate
