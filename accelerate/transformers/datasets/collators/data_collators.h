// Makes batches of rows, with Transformers' names, shapes and dtypes.
//
// Every collator is a function of rows that returns Inputs. Integers become int64, floats float32,
// booleans bool. "label" and "label_ids" become "labels", except in
// DataCollatorForTokenClassification, which keeps the name. default_data_collator leaves out
// strings; for other collators they are an error, so remove such columns first. Errors are
// UsageErrors that name the column. Collators run in the workers of a loader, which copies them.
#pragma once

#include <ATen/core/Generator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "accelerate/tensor/inputs.h"
#include "accelerate/transformers/datasets/row.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate {

using DataCollator = std::function<Inputs(std::vector<Row>)>;

namespace detail {
struct SharedGenerator {
  std::mutex turn;
  std::optional<at::Generator> generator;
};
}  // namespace detail

/// Converts a tokenizer's result to int64 tensors {texts, tokens}, as Python's return_tensors="pt".
/// Throws UsageError for rows of unequal length: call the tokenizer with .padding = true.
[[nodiscard]] Inputs to_inputs(const BatchEncoding& encoding);

/// Stacks every column: {batch} or {batch, length}. Throws UsageError for lists of unequal length.
[[nodiscard]] Inputs default_data_collator(std::vector<Row> rows);

/// Pads "input_ids", "attention_mask" (made if it is missing), "token_type_ids" and
/// "special_tokens_mask" to the same length. Stacks other columns.
struct DataCollatorWithPadding {
  PreTrainedTokenizer tokenizer;
  Padding padding = true;
  std::optional<std::size_t> max_length = {};
  std::optional<std::size_t> pad_to_multiple_of = {};

  [[nodiscard]] Inputs operator()(std::vector<Row> rows) const;
};

/// As DataCollatorWithPadding. Also pads "labels" or "label", with one label a token, to the same
/// length.
struct DataCollatorForTokenClassification {
  PreTrainedTokenizer tokenizer;
  Padding padding = true;
  std::optional<std::size_t> max_length = {};
  std::optional<std::size_t> pad_to_multiple_of = {};
  std::int64_t label_pad_token_id = -100;

  [[nodiscard]] Inputs operator()(std::vector<Row> rows) const;
};

/// As DataCollatorWithPadding. Also pads "labels" or "label" to the longest labels of the batch.
struct DataCollatorForSeq2Seq {
  PreTrainedTokenizer tokenizer;
  Padding padding = true;
  std::optional<std::size_t> max_length = {};
  std::optional<std::size_t> pad_to_multiple_of = {};
  std::int64_t label_pad_token_id = -100;
  /// Makes "decoder_input_ids" of the labels, as a model does. Empty: the batch has none.
  std::function<at::Tensor(const at::Tensor& labels)> prepare_decoder_input_ids = {};

  [[nodiscard]] Inputs operator()(std::vector<Row> rows) const;
};

/// Pads, and makes "labels". With `mlm`, each token is chosen with mlm_probability. Of the chosen
/// tokens, mask_replace_prob become the mask token, random_replace_prob become a random token, and
/// the rest stay. Labels are -100 where no token was chosen. Without `mlm`, labels are the ids,
/// with -100 at pad tokens. Throws UsageError for probabilities outside 0 to 1, and for `mlm`
/// without a mask token.
struct DataCollatorForLanguageModeling {
  PreTrainedTokenizer tokenizer;
  bool mlm = true;
  double mlm_probability = 0.15;
  double mask_replace_prob = 0.8;
  double random_replace_prob = 0.1;
  std::optional<std::size_t> pad_to_multiple_of = {};
  /// Seed of a generator that all copies share; nullopt: LibTorch's default generator. The choices
  /// equal Python's if one thread collates in the same order. Several workers draw in the order in
  /// which they arrive.
  std::optional<std::uint64_t> seed = {};

  [[nodiscard]] Inputs operator()(std::vector<Row> rows) const;

  /// Not an option: the generator that all copies share, made at its first use.
  std::shared_ptr<detail::SharedGenerator> generator = std::make_shared<detail::SharedGenerator>();
};

/// Concatenates all rows, without padding. "input_ids", "labels" (separator_id at the beginning of
/// each row) and "position_ids": {1, tokens}, int64. "seq_idx": {1, tokens}, int32. "cu_seq_lens_q"
/// and "cu_seq_lens_k": {rows + 1}, int32. "max_length_q" and "max_length_k": {}, int64. Such a
/// batch cannot be divided between ranks: dispatching or splitting it throws UsageError.
struct DataCollatorWithFlattening {
  bool return_position_ids = true;
  std::int64_t separator_id = -100;
  bool return_flash_attn_kwargs = false;
  bool return_seq_idx = false;
  std::int64_t position_ids_start = 0;  ///< RoBERTa and similar models begin at 2.

  [[nodiscard]] Inputs operator()(std::vector<Row> rows) const;
};

}  // namespace accelerate
