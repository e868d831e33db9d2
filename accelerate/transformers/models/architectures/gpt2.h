// GPT-2. Modules have the names that they have in Transformers.
// Source: Radford et al. 2019; `modeling_gpt2.py` of Transformers.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/architectures/causal_decoder.h"
#include "accelerate/transformers/models/config/limits.h"
#include "accelerate/transformers/models/layers/activations.h"
#include "accelerate/transformers/models/layers/linear.h"

namespace accelerate {

/// The keys of config.json, with Transformers' defaults.
struct Gpt2Config {
  std::int64_t vocab_size = 50257;
  std::int64_t n_positions = 1024;
  std::int64_t n_embd = 768;
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::optional<std::int64_t> n_inner = {};  ///< 4 · n_embd if not given.
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1;
  double embd_pdrop = 0.1;
  double attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5;
  double initializer_range = 0.02;
  bool scale_attn_weights = true;
  bool scale_attn_by_inverse_layer_idx = false;
  bool tie_word_embeddings = true;

  template <typename Self, typename Visit>
  static void visit(Self& self, const Visit& visit) {
    visit("vocab_size", self.vocab_size, detail::limits::kWords);
    visit("n_positions", self.n_positions, detail::limits::kWords);
    visit("n_embd", self.n_embd, detail::limits::kWidth);
    visit("n_layer", self.n_layer, detail::limits::kLayers);
    visit("n_head", self.n_head, detail::limits::kHeads);
    visit("n_inner", self.n_inner, detail::limits::kInner);
    visit("activation_function", self.activation_function);
    visit("resid_pdrop", self.resid_pdrop, detail::limits::kShare);
    visit("embd_pdrop", self.embd_pdrop, detail::limits::kShare);
    visit("attn_pdrop", self.attn_pdrop, detail::limits::kShare);
    visit("layer_norm_epsilon", self.layer_norm_epsilon, detail::limits::kEpsilon);
    visit("initializer_range", self.initializer_range, detail::limits::kDeviation);
    visit("scale_attn_weights", self.scale_attn_weights);
    visit("scale_attn_by_inverse_layer_idx", self.scale_attn_by_inverse_layer_idx);
    visit("tie_word_embeddings", self.tie_word_embeddings);
  }
};

namespace detail {

/// Attention and a feed-forward network. Each is applied to its normed input and added to its
/// input. {…, H} → {…, H}.
class Gpt2BlockImpl : public torch::nn::Module {
 public:
  Gpt2BlockImpl(const Gpt2Config& config, std::int64_t index);
  /// `cache` may be null.
  [[nodiscard]] at::Tensor forward(const at::Tensor& hidden, const Tokens& tokens,
                                   AttentionSpec spec, KeyValueCache* cache);

 private:
  [[nodiscard]] at::Tensor attend(const at::Tensor& hidden, const Tokens& tokens,
                                  const AttentionSpec& spec, KeyValueCache* cache);

  std::size_t index_;
  std::int64_t heads_;
  double scale_, attention_dropout_, dropout_;
  Activation activation_;
  torch::nn::LayerNorm ln_1_, ln_2_;
  Conv1D c_attn_, attention_c_proj_, c_fc_, mlp_c_proj_;
};
TORCH_MODULE(Gpt2Block);

}  // namespace detail

/// The decoder alone. token_type_ids are ids of words, whose embeddings are added.
class Gpt2ModelImpl : public DecoderModel {
 public:
  explicit Gpt2ModelImpl(const PretrainedConfig& config);
  [[nodiscard]] detail::Computed compute(const TextInputs& inputs,
                                         const detail::HeadNeeds& needs) override;
  [[nodiscard]] std::vector<std::string> no_split_modules() const override { return {"GPT2Block"}; }
  [[nodiscard]] ParallelPlan parallel_plan() const override;
  [[nodiscard]] std::int64_t hidden_size() const override { return values_.n_embd; }
  [[nodiscard]] std::int64_t vocab_size() const override { return values_.vocab_size; }
  [[nodiscard]] std::int64_t max_positions() const override { return values_.n_positions; }
  [[nodiscard]] torch::nn::Embedding input_embeddings() override { return wte; }
  [[nodiscard]] const Gpt2Config& values() const { return values_; }
  [[nodiscard]] bool ignores(const std::string& name) const override;

  torch::nn::Embedding wte = nullptr, wpe = nullptr;

 protected:
  void init_weights(torch::nn::Module& module, detail::WeightInitialiser& initialiser) override;

 private:
  Gpt2Config values_;
  torch::nn::ModuleList h_;
  torch::nn::LayerNorm ln_f_ = nullptr;
};
TORCH_MODULE(Gpt2Model);

class Gpt2LMHeadModelImpl : public DecoderForCausalLM {
 public:
  explicit Gpt2LMHeadModelImpl(const PretrainedConfig& config);
};
TORCH_MODULE(Gpt2LMHeadModel);

class Gpt2ForSequenceClassificationImpl : public DecoderForSequenceClassification {
 public:
  explicit Gpt2ForSequenceClassificationImpl(const PretrainedConfig& config);
};
TORCH_MODULE(Gpt2ForSequenceClassification);

class Gpt2ForTokenClassificationImpl : public DecoderForTokenClassification {
 public:
  explicit Gpt2ForTokenClassificationImpl(const PretrainedConfig& config);
};
TORCH_MODULE(Gpt2ForTokenClassification);

class Gpt2ForQuestionAnsweringImpl : public DecoderForQuestionAnswering {
 public:
  explicit Gpt2ForQuestionAnsweringImpl(const PretrainedConfig& config);
};
TORCH_MODULE(Gpt2ForQuestionAnswering);

}  // namespace accelerate
