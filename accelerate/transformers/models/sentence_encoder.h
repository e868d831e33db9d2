// Texts as vectors, for search and comparison.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/models/auto_model.h"

namespace accelerate {

/// What the vector of a text is made of: its first token, or the mean or the greatest values of the
/// tokens that the attention mask keeps.
enum class SentencePooling : std::uint8_t { cls, mean, max };

struct SentenceOptions {
  SentencePooling pooling = SentencePooling::mean;
  bool normalizes = false;  ///< Divides vectors by their length.
  /// The most tokens of a text; the rest is cut off. nullopt: as many as the tokenizer and the
  /// model's positions allow.
  std::optional<std::size_t> max_length = {};
};

/// Returns the vectors of rows, fp32 {B, H}, with gradients. last_hidden_state: {B, T, H}.
/// attention_mask: {B, T}, 0 at padding; undefined: all tokens count. A row without tokens has zeros
/// as its mean. `options.max_length` is not used. Throws UsageError for other shapes.
/// Source: `Pooling` and `Normalize` of sentence-transformers.
[[nodiscard]] at::Tensor sentence_embeddings(const at::Tensor& last_hidden_state,
                                             const at::Tensor& attention_mask,
                                             const SentenceOptions& options = {});

/// A model without a head and its tokenizer, which turn texts into vectors.
class SentenceEncoder {
 public:
  /// Opens a folder or a repository of the hub. Where sentence-transformers wrote it, modules.json
  /// says how to pool and whether to normalise; else the vector is the mean. Throws ConfigError for
  /// modules other than Transformer, Pooling and Normalize and for other ways to pool, and what
  /// AutoModel and AutoTokenizer throw.
  [[nodiscard]] static SentenceEncoder from_pretrained(const std::string& name_or_folder,
                                                       const FromPretrainedOptions& options = {});
  SentenceEncoder(std::shared_ptr<PreTrainedModel> model, PreTrainedTokenizer tokenizer,
                  SentenceOptions options = {});

  /// Returns the vectors of the texts, fp32 {texts, H} on the CPU, without gradients, in evaluation
  /// mode. Computes `batch_size` texts of similar length together. Throws UsageError if there are
  /// no texts, and for a batch_size below 1. Local.
  [[nodiscard]] at::Tensor encode(const std::vector<std::string>& texts,
                                  std::size_t batch_size = 32) const;

  [[nodiscard]] const std::shared_ptr<PreTrainedModel>& model() const { return model_; }
  [[nodiscard]] const PreTrainedTokenizer& tokenizer() const { return tokenizer_; }
  [[nodiscard]] const SentenceOptions& options() const { return options_; }

 private:
  std::shared_ptr<PreTrainedModel> model_;
  PreTrainedTokenizer tokenizer_;
  SentenceOptions options_;
};

}  // namespace accelerate
