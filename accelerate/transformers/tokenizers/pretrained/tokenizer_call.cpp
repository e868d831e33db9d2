#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/transformers/tokenizers/encoding_parts.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace accelerate {

Truncation::Truncation(bool truncates) : is_given_(true) {
  if (truncates) strategy_ = TruncationStrategy::longest_first;
}

Truncation::Truncation(std::string_view word) : is_given_(true) {
  if (word == "longest_first")
    strategy_ = TruncationStrategy::longest_first;
  else if (word == "only_first")
    strategy_ = TruncationStrategy::only_first;
  else if (word == "only_second")
    strategy_ = TruncationStrategy::only_second;
  else if (word != "do_not_truncate") {
    throw UsageError(
        "truncation is '" + std::string(word) +
        "'; allowed are true, false, longest_first, only_first, only_second, do_not_truncate");
  }
}

Padding::Padding(std::string_view word) : is_word_(true) {
  if (word == "longest")
    strategy_ = Strategy::longest;
  else if (word == "max_length")
    strategy_ = Strategy::max_length;
  else if (word != "do_not_pad") {
    throw UsageError("padding is '" + std::string(word) +
                     "'; allowed are true, false, longest, max_length, do_not_pad");
  }
}

namespace {

using Strategy = Padding::Strategy;

// What the options of a call mean for the tokenizer.
struct Plan {
  std::optional<TruncationOptions> truncation;
  std::optional<PaddingOptions> padding;
};

void check_multiple(std::size_t max_length, const std::optional<std::size_t>& multiple) {
  if (multiple.value_or(0) == 0 || max_length % *multiple == 0) return;
  throw UsageError("texts are cut to " + std::to_string(max_length) +
                   " tokens and filled up to a multiple of " + std::to_string(*multiple) +
                   "; the first must be a multiple of the second");
}

PaddingOptions padding_of(const PreTrainedTokenizer& tokenizer, std::optional<Side> side,
                          std::size_t multiple_of) {
  const auto token = tokenizer.pad_token();
  const auto id = tokenizer.pad_token_id();
  if (!token || !id) {
    throw UsageError(
        "the call asks for padding, but the tokenizer has no pad_token. Name one with "
        "add_special_tokens({.pad_token = AddedToken{\"[PAD]\"}}), or take eos_token() for it");
  }
  return {.multiple_of = multiple_of,
          .side = side.value_or(tokenizer.padding_side()),
          .id = static_cast<std::uint32_t>(*id),
          .token = *token};
}

Plan plan_of(const PreTrainedTokenizer& tokenizer, const TokenizerCallOptions& options) {
  std::optional<TruncationStrategy> strategy = options.truncation.strategy();
  Strategy padding = options.padding.strategy();
  // max_length alone cuts, too.
  const bool says_padding = padding != Strategy::do_not_pad || options.padding.is_word();
  if (options.max_length && !says_padding && !options.truncation.is_given()) {
    strategy = TruncationStrategy::longest_first;
  }
  const auto limit = options.max_length ? options.max_length : tokenizer.model_max_length();
  if (!limit) strategy.reset();
  if (!limit && padding == Strategy::max_length) padding = Strategy::do_not_pad;
  Plan plan;
  if (strategy) {
    plan.truncation = TruncationOptions{.max_length = *limit,
                                        .stride = options.stride,
                                        .strategy = *strategy,
                                        .side = tokenizer.truncation_side()};
  }
  if (padding == Strategy::do_not_pad) return plan;
  if (strategy) check_multiple(*limit, options.pad_to_multiple_of);
  plan.padding =
      padding_of(tokenizer, options.padding_side, options.pad_to_multiple_of.value_or(0));
  if (padding == Strategy::max_length) plan.padding->length = *limit;
  return plan;
}

// A plan for text_target, which max_target_length limits where max_length limits the texts.
Plan plan_of_targets(Plan plan, const TokenizerCallOptions& options) {
  const auto& length = options.max_target_length;
  if (length && plan.truncation) plan.truncation->max_length = *length;
  if (length && options.padding.strategy() == Strategy::max_length && plan.padding)
    plan.padding->length = *length;
  return plan;
}

void refuse_words(const Texts& texts) {
  if (!texts.words()) return;
  throw UsageError(
      "lists of words were given as texts. Set is_split_into_words; without it a text is a string");
}

std::vector<TextInput> inputs_of(const Texts& text, const Texts& pair) {
  refuse_words(text);
  refuse_words(pair);
  const bool has_pair = !pair.all().empty() || pair.is_batch();
  if (has_pair && (pair.is_batch() != text.is_batch() || pair.all().size() != text.all().size())) {
    throw UsageError("text_pair holds " + std::to_string(pair.all().size()) + " texts" +
                     (pair.is_batch() ? " in a list" : "") + ", and there are " +
                     std::to_string(text.all().size()) + " first texts" +
                     (text.is_batch() ? " in a list" : "") + "; each text needs one pair");
  }
  std::vector<TextInput> inputs;
  for (std::size_t i = 0; i < text.all().size(); ++i) {
    inputs.push_back({text.all()[i]});
    // As in Python, an empty second text of a single text counts as none.
    if (has_pair && (text.is_batch() || !pair.all()[i].empty())) inputs.back().pair = pair.all()[i];
  }
  return inputs;
}

// Returns texts that were given as words: a list of strings is one of them.
std::vector<std::span<const std::string>> word_lists_of(const Texts& texts, const char* name) {
  if (!texts.words() && !texts.is_batch() && !texts.is_none())
    throw UsageError(std::string(name) +
                     " is a string, and is_split_into_words was set; allowed are a list of words "
                     "and a list of such lists");
  if (texts.is_batch()) return {texts.all()};
  std::vector<std::span<const std::string>> lists;
  if (texts.words()) lists.assign(texts.words()->begin(), texts.words()->end());
  return lists;
}

std::vector<WordsInput> word_inputs_of(const Texts& text, const Texts& pair) {
  const auto texts = word_lists_of(text, "text"), pairs = word_lists_of(pair, "text_pair");
  if (!pair.is_none() && (text.is_batch() != pair.is_batch() || texts.size() != pairs.size()))
    throw UsageError("text_pair holds " + std::to_string(pairs.size()) +
                     " lists of words, and there are " + std::to_string(texts.size()) +
                     " first texts; each text needs one pair, given as the text is");
  std::vector<WordsInput> inputs;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    inputs.push_back({texts[i]});
    // As in Python, an empty second text of a single text counts as none.
    if (!pairs.empty() && (text.words() || !pairs[i].empty())) inputs.back().pair = pairs[i];
  }
  return inputs;
}

// Makes rows of overflowing parts, each after the row that it comes from. Appends the number of
// each row's text to `samples`.
std::vector<Encoding> rows_of(std::vector<Encoding> encodings, BatchEncoding::Row& samples) {
  std::vector<Encoding> rows;
  for (std::size_t i = 0; i < encodings.size(); ++i) {
    auto overflowing = std::move(encodings[i].overflowing);
    encodings[i].overflowing.clear();
    rows.push_back(std::move(encodings[i]));
    samples.insert(samples.end(), overflowing.size() + 1, static_cast<std::int64_t>(i));
    for (Encoding& part : overflowing) rows.push_back(std::move(part));
  }
  return rows;
}

template <typename Get>
BatchEncoding::Column column_of(const std::vector<Encoding>& rows, Get get) {
  BatchEncoding::Column column;
  column.reserve(rows.size());
  for (const Encoding& row : rows) {
    const auto& values = get(row);
    column.emplace_back(values.begin(), values.end());
  }
  return column;
}

bool is_asked_for(const PreTrainedTokenizer& tokenizer, std::string_view name,
                  const std::optional<bool>& choice) {
  const auto& names = tokenizer.model_input_names();
  return choice.value_or(std::ranges::find(names, name) != names.end());
}

BatchEncoding columns_of(const std::vector<Encoding>& rows, const PreTrainedTokenizer& tokenizer,
                         const TokenizerCallOptions& options) {
  BatchEncoding batch;
  batch.set("input_ids", column_of(rows, std::mem_fn(&Encoding::ids)));
  if (is_asked_for(tokenizer, "token_type_ids", options.return_token_type_ids)) {
    batch.set("token_type_ids", column_of(rows, std::mem_fn(&Encoding::type_ids)));
  }
  if (is_asked_for(tokenizer, "attention_mask", options.return_attention_mask)) {
    batch.set("attention_mask", column_of(rows, std::mem_fn(&Encoding::attention_mask)));
  }
  if (options.return_special_tokens_mask) {
    batch.set("special_tokens_mask", column_of(rows, std::mem_fn(&Encoding::special_tokens_mask)));
  }
  if (options.return_length) {
    batch.set("length",
              column_of(rows, [](const Encoding& row) { return std::array{row.size()}; }));
  }
  return batch;
}

void warn_of_length(const PreTrainedTokenizer& tokenizer, const std::vector<Encoding>& rows) {
  const auto limit = tokenizer.model_max_length();
  if (!limit || *limit == 0) return;
  if (std::ranges::none_of(rows, [&](const Encoding& row) { return row.size() > *limit; })) return;
  get_logger("accelerate.tokenizers")
      .warning_once("a text has more tokens than the model takes, which are " +
                    std::to_string(*limit) +
                    " (model_max_length). The model may fail on it; cut it with truncation");
}

// What is encoded, and how long it becomes.
struct Order {
  const Texts& text;
  const Texts& pair;
  const Plan& plan;
};

BatchEncoding encoded(const PreTrainedTokenizer& tokenizer, const Order& order,
                      const TokenizerCallOptions& options) {
  Tokenizer backend = tokenizer.backend_tokenizer();
  backend.set_truncation(order.plan.truncation);
  backend.set_padding(order.plan.padding);
  const EncodeOptions encode{.add_special_tokens = options.add_special_tokens,
                             .split_special_tokens = options.split_special_tokens.value_or(
                                 tokenizer.split_special_tokens()),
                             .strict = options.strict_utf8};
  auto encodings = options.is_split_into_words
                       ? backend.encode_words(word_inputs_of(order.text, order.pair), encode)
                       : backend.encode_batch(inputs_of(order.text, order.pair), encode);
  BatchEncoding::Row samples;
  if (options.return_overflowing_tokens) encodings = rows_of(std::move(encodings), samples);
  if (options.verbose && !order.plan.truncation && !options.max_length)
    warn_of_length(tokenizer, encodings);
  BatchEncoding columns = columns_of(encodings, tokenizer, options);
  BatchEncoding batch(columns.columns(), std::move(encodings));
  batch.set_overflow_to_sample_mapping(std::move(samples));
  return batch;
}

void fill_up(BatchEncoding::Row& row, std::size_t length, std::int64_t value, Side side) {
  if (row.size() >= length) return;
  row.insert(side == Side::right ? row.end() : row.begin(), length - row.size(), value);
}

// Returns the length to which rows are padded; nullopt if they are not padded.
std::optional<std::size_t> padded_length(const PreTrainedTokenizer& tokenizer,
                                         const BatchEncoding::Column& ids,
                                         const TokenizerPadOptions& options) {
  std::size_t length = 0;
  if (options.padding.strategy() == Strategy::do_not_pad) return std::nullopt;
  if (options.padding.strategy() == Strategy::longest) {
    for (const auto& row : ids) length = std::max(length, row.size());
  } else {
    const auto limit = options.max_length ? options.max_length : tokenizer.model_max_length();
    if (!limit) return std::nullopt;
    length = *limit;
    detail::check_padded_length(length);
  }
  const std::size_t multiple = options.pad_to_multiple_of.value_or(0);
  detail::check_padded_length(multiple);
  return multiple > 0 ? (length + multiple - 1) / multiple * multiple : length;
}

}  // namespace

BatchEncoding PreTrainedTokenizer::operator()(const Texts& text,
                                              const TokenizerCallOptions& options) const {
  if (!options.return_tensors.empty())
    throw UsageError("return_tensors is '" + std::string(options.return_tensors) +
                     "'; allowed is none: a BatchEncoding holds integers. Make tensors of it with "
                     "to_inputs() or a data collator");
  if (text.is_none() && options.text_target.is_none())
    throw UsageError("neither a text nor a text_target was given; one of them is needed");
  const Plan plan = plan_of(*this, options);
  BatchEncoding batch;
  if (!text.is_none()) batch = encoded(*this, {text, options.text_pair, plan}, options);
  if (options.text_target.is_none()) return batch;
  BatchEncoding targets = encoded(
      *this, {options.text_target, options.text_pair_target, plan_of_targets(plan, options)},
      options);
  if (text.is_none()) return targets;
  batch.set("labels", targets.input_ids());
  return batch;
}

BatchEncoding PreTrainedTokenizer::pad(BatchEncoding batch,
                                       const TokenizerPadOptions& options) const {
  BatchEncoding::Column ids = batch.input_ids();
  const bool has_mask = is_asked_for(*this, "attention_mask", options.return_attention_mask);
  if (has_mask && !batch.contains("attention_mask")) {
    BatchEncoding::Column mask;
    for (const auto& row : ids) mask.emplace_back(row.size(), 1);
    batch.set("attention_mask", std::move(mask));
  }
  const auto length = padded_length(*this, ids, options);
  if (!length) return batch;
  const PaddingOptions padding = padding_of(*this, options.padding_side, 0);
  const auto fill = [&](std::string_view name, std::int64_t value) {
    if (!batch.contains(name)) return;
    BatchEncoding::Column column = batch[name];
    for (auto& row : column) fill_up(row, *length, value, padding.side);
    batch.set(name, std::move(column));
  };
  fill("input_ids", padding.id);
  if (has_mask) fill("attention_mask", 0);
  fill("token_type_ids", padding.type_id);
  fill("special_tokens_mask", 1);
  return BatchEncoding(batch.columns());
}

}  // namespace accelerate
