// RoBERTa: BERT's layers, positions counted from pad_token_id + 1, some heads of its own. XLM-RoBERTa
// and CamemBERT are RoBERTas with other vocabularies. Source: Liu et al. 2019; `modeling_roberta.py`,
// `modeling_xlm_roberta.py` and `modeling_camembert.py` of Transformers.
#include <ATen/ops/tanh.h>

#include "accelerate/transformers/models/architectures/bert.h"
#include "accelerate/transformers/models/layers/dropout.h"

namespace accelerate::detail {
namespace {

class RobertaFirstTokenHead final : public FirstTokenHead {
 public:
  explicit RobertaFirstTokenHead(const std::shared_ptr<BertModel>& roberta)
      : FirstTokenHead(below_head("ForSequenceClassification", roberta),
                       Task::sequence_classification),
        dropout_(roberta->dropout_of_head()),
        dense_(roberta->hidden_size(), roberta->hidden_size()),
        out_proj_(roberta->hidden_size(), scores()) {
    auto& classifier =
        part(*this, "classifier", roberta->family().class_prefix + "ClassificationHead");
    classifier.register_module("dense", dense_);
    classifier.register_module("out_proj", out_proj_);
    post_init();
  }
  at::Tensor scores_of(const at::Tensor& first) override {
    const auto dropped = [&](const at::Tensor& x) {
      return dropout_of(x, dropout_, is_training());
    };
    return out_proj_(dropped(at::tanh(dense_(dropped(first)))));
  }

 private:
  double dropout_;
  Linear dense_, out_proj_;
};

class RobertaForMaskedLM final : public MaskedLM {
 public:
  explicit RobertaForMaskedLM(const std::shared_ptr<BertModel>& roberta)
      : MaskedLM(below_head("ForMaskedLM", roberta), activation_of("gelu"),
                 roberta->values().layer_norm_eps) {
    auto& head = part(*this, "lm_head", roberta->family().class_prefix + "LMHead");
    head.register_module("dense", dense);
    head.register_module("layer_norm", norm);
    head.register_module("decoder", decoder);
    register_bias(head);
    post_init();
  }
};

Architecture roberta_like(std::string_view model_type, const std::string& class_prefix,
                          std::int64_t vocab_size = BertConfig().vocab_size) {
  BertFamily family{.class_prefix = class_prefix, .base_model_prefix = "roberta"};
  family.defaults.vocab_size = vocab_size;
  family.defaults.pad_token_id = 1;
  family.counts_behind_padding = true;
  const MakeBert bare{family, /*pools=*/false};
  Architecture made = bert_like(model_type, family);
  made.classes[Task::sequence_classification] = with_head<RobertaFirstTokenHead>(bare);
  made.classes[Task::masked_lm] = with_head<RobertaForMaskedLM>(bare);
  return made;
}

}  // namespace

Architecture xlm_roberta() {
  return roberta_like("xlm-roberta", "XLMRoberta");
}

Architecture camembert() {
  return roberta_like("camembert", "Camembert");
}

Architecture roberta() {
  return roberta_like("roberta", "Roberta", 50265);
}

}  // namespace accelerate::detail
