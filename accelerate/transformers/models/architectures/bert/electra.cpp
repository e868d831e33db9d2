// ELECTRA: BERT's layers behind embeddings of another size, no pooler, heads of its own.
// Source: Clark et al. 2020; `modeling_electra.py` of Transformers.
#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/bert/bert.h"
#include "accelerate/transformers/models/layers/dropout.h"

namespace accelerate::detail {
namespace {

// Reads the first token of each row through the layer that Transformers calls a summary.
class ElectraForMultipleChoice final : public FirstTokenHead {
 public:
  explicit ElectraForMultipleChoice(const std::shared_ptr<BertModel>& electra)
      : FirstTokenHead(below_head("ForMultipleChoice", electra), Task::multiple_choice),
        summary_(electra->hidden_size(), electra->hidden_size()),
        classifier_(electra->hidden_size(), scores()) {
    require("summary_type", "\"first\"");
    require("summary_use_proj", "true");
    require("summary_activation", "\"gelu\"");
    if (config().contains("summary_last_dropout"))
      dropout_ = value_in(config(), "summary_last_dropout", limits::kShare);
    part(*this, "sequence_summary", "ElectraSequenceSummary").register_module("summary", summary_);
    register_module("classifier", classifier_);
    post_init();
  }
  at::Tensor scores_of(const at::Tensor& first) override {
    return classifier_(dropout_of(gelu_(summary_(first)), dropout_, is_training()));
  }

 private:
  // Throws ConfigError unless `key` is missing or has this value, which all known files have.
  void require(const char* key, const char* value) const {
    if (config().contains(key) && config().json_of(key) != value) config().refuse(key, value);
  }

  double dropout_ = 0.1;
  Activation gelu_ = activation_of("gelu");
  Linear summary_, classifier_;
};

class ElectraForMaskedLM final : public MaskedLM {
 public:
  explicit ElectraForMaskedLM(const std::shared_ptr<BertModel>& electra)
      : MaskedLM(below_head("ForMaskedLM", electra), activation_of("gelu"),
                 electra->values().layer_norm_eps) {
    auto& predictions = part(*this, "generator_predictions", "ElectraGeneratorPredictions");
    predictions.register_module("LayerNorm", norm);
    predictions.register_module("dense", dense);
    register_module("generator_lm_head", decoder);
    post_init();
  }
};

}  // namespace

Architecture electra() {
  BertFamily family{.class_prefix = "Electra", .base_model_prefix = "electra"};
  family.defaults.hidden_size = 256;
  family.defaults.num_attention_heads = 4;
  family.defaults.intermediate_size = 1024;
  family.defaults.embedding_size = 128;
  family.reads_embedding_size = true;
  const MakeBert bare{family, /*pools=*/false};
  Architecture made = bert_like("electra", family);
  made.classes[Task::base] = bare;
  made.classes[Task::sequence_classification] =
      with_head<DenseFirstTokenHead>(bare, activation_of("gelu"));
  made.classes[Task::multiple_choice] = with_head<ElectraForMultipleChoice>(bare);
  made.classes[Task::masked_lm] = with_head<ElectraForMaskedLM>(bare);
  return made;
}

}  // namespace accelerate::detail
