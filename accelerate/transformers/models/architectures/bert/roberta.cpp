// RoBERTa: BERT's layers, positions counted from pad_token_id + 1, some heads of its own. XLM-RoBERTa
// and CamemBERT are RoBERTas with other vocabularies. Source: Liu et al. 2019; `modeling_roberta.py`,
// `modeling_xlm_roberta.py` and `modeling_camembert.py` of Transformers.
#include "accelerate/transformers/models/architectures/bert/bert.h"

namespace accelerate::detail {
namespace {

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
  family.makes_head_first = class_prefix != "Roberta";
  const MakeBert bare{family, /*pools=*/false};
  Architecture made = bert_like(model_type, family);
  made.classes[Task::sequence_classification] =
      with_head<DenseFirstTokenHead>(bare, activation_of("tanh"));
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
