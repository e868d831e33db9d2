// BART's heads besides the next token.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/tanh.h>

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/transformers/models/architectures/encoder_decoders/bart.h"
#include "accelerate/transformers/models/layers/dropout.h"
#include "accelerate/transformers/models/losses.h"

namespace accelerate::detail {
namespace {

class BartForSequenceClassification final : public BartWeights<TextModelWithHead> {
 public:
  explicit BartForSequenceClassification(const std::shared_ptr<Seq2SeqModel>& bart)
      : BartWeights(BelowHead{"BartForSequenceClassification", bart, "model"}),
        bart_(*bart),
        dropout_(read_config<BartConfig>(config()).classifier_dropout),
        dense_(bart->hidden_size(), bart->hidden_size()),
        out_proj_(bart->hidden_size(), config().num_labels()) {
    auto& head = part(*this, "classification_head", "BartClassificationHead");
    head.register_module("dense", dense_);
    head.register_module("out_proj", out_proj_);
    post_init();
  }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override {
    TextInputs text = inputs;
    text.labels.reset();
    const at::Tensor last = last_ends(inputs);
    const auto sides = bart_.run(text, {.all_tokens = true});
    const at::Tensor hidden = sides.decoder.tokens.restore(sides.decoder.hidden);
    if (hidden.sizes().slice(0, 2) != inputs.input_ids.sizes())
      throw UsageError("decoder_input_ids have another shape than input_ids, by whose last '" +
                       std::string(kEnd) + "' rows are classified");
    const auto dropped = [&](const at::Tensor& x) {
      return dropout_of(x, dropout_, is_training());
    };
    const at::Tensor row = at::arange(hidden.size(0), last.options());
    const at::Tensor read = hidden.flatten(0, 1).index_select(0, row * hidden.size(1) + last);
    ModelOutput output = sides.output();
    output.logits = out_proj_(dropped(at::tanh(dense_(dropped(read)))));
    if (inputs.labels.defined())
      output.loss = sequence_classification_loss(output.logits, inputs.labels,
                                                 config().get<std::string>("problem_type", ""),
                                                 inputs.num_items_in_batch);
    return output;
  }

 private:
  static constexpr const char* kEnd = "eos_token_id";

  // Returns the place of the last end token of each row, int64 {B}.
  [[nodiscard]] at::Tensor last_ends(const TextInputs& inputs) const {
    const at::Tensor& ids = inputs.input_ids;
    if (!ids.defined()) throw UsageError(name() + " was given no input_ids");
    check_input_ids(ids);
    const at::Tensor ends = ids.eq(config().get<std::int64_t>(kEnd, 2));
    const at::Tensor counts = ends.sum(1);
    if (counts.min().item<std::int64_t>() < 1 || counts.min().ne(counts.max()).item<bool>())
      throw UsageError(
          "rows of input_ids have different numbers of the eos_token_id by which they are "
          "classified, or none; allowed is one or more, as many in each row");
    return (at::arange(ids.size(1), ids.options()) * ends).argmax(-1);
  }

  Seq2SeqModel& bart_;
  double dropout_;
  Linear dense_, out_proj_;
};

class BartForQuestionAnswering final : public BartWeights<TextModelWithHead> {
 public:
  explicit BartForQuestionAnswering(const std::shared_ptr<Seq2SeqModel>& bart)
      : BartWeights(BelowHead{"BartForQuestionAnswering", bart, "model"}),
        bart_(*bart),
        qa_outputs_(bart->hidden_size(), 2) {
    register_module("qa_outputs", qa_outputs_);
    post_init();
  }
  [[nodiscard]] std::vector<std::string> input_names() const override {
    return {"input_ids",       "attention_mask",  "decoder_input_ids", "decoder_attention_mask",
            "encoder_outputs", "start_positions", "end_positions"};
  }

 protected:
  [[nodiscard]] ModelOutput output_of(const TextInputs& inputs) override {
    // The loss is a softmax over the tokens of a row, padding included.
    const auto sides = bart_.run(inputs, {.all_tokens = inputs.start_positions.defined()});
    const at::Tensor logits = sides.decoder.tokens.restore(qa_outputs_(sides.decoder.hidden));
    ModelOutput output = sides.output();
    output.start_logits = logits.select(-1, 0).contiguous();
    output.end_logits = logits.select(-1, 1).contiguous();
    if (inputs.start_positions.defined() && inputs.end_positions.defined())
      output.loss = question_answering_loss(output.start_logits, output.end_logits,
                                            inputs.start_positions, inputs.end_positions);
    return output;
  }

 private:
  Seq2SeqModel& bart_;
  Linear qa_outputs_;
};

}  // namespace

std::shared_ptr<PreTrainedModel> bart_for_rows(std::shared_ptr<Seq2SeqModel> bart) {
  return std::make_shared<BartForSequenceClassification>(std::move(bart));
}

std::shared_ptr<PreTrainedModel> bart_for_answers(std::shared_ptr<Seq2SeqModel> bart) {
  return std::make_shared<BartForQuestionAnswering>(std::move(bart));
}

}  // namespace accelerate::detail
