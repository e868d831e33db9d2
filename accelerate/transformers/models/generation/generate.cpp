// PreTrainedModel::generate().
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/utf8.h"
#include "accelerate/tensor/compat/matrix_products.h"
#include "accelerate/transformers/models/architectures/heads.h"
#include "accelerate/transformers/models/architectures/seq2seq.h"
#include "accelerate/transformers/models/generation/continuation.h"
#include "accelerate/transformers/models/pre_trained_model.h"

namespace accelerate {
namespace {

using detail::Continuation;

const GenerationConfig kDefaults{.max_length = 20,
                                 .min_length = 0,
                                 .do_sample = false,
                                 .num_beams = 1,
                                 .num_return_sequences = 1,
                                 .temperature = 1.0,
                                 .top_k = 50,
                                 .top_p = 1.0,
                                 .repetition_penalty = 1.0,
                                 .no_repeat_ngram_size = 0,
                                 .length_penalty = 1.0,
                                 .early_stopping = false,
                                 .use_cache = true};

void check_least(const char* name, std::int64_t value, std::int64_t least) {
  if (value < least)
    throw UsageError(std::string(name) + " is " + std::to_string(value) + "; allowed are " +
                     std::to_string(least) + " or more");
}

void check_positive(const char* name, double value) {
  if (!(value > 0))
    throw UsageError(std::string(name) + " is " + std::to_string(value) +
                     "; allowed are numbers above 0");
}

// Throws UsageError for values that are not allowed. `config` has all defaults; `prompt` is the
// number of tokens of the prompt.
void check(const GenerationConfig& config, std::int64_t prompt, const GenerateOptions& options) {
  if (config.max_new_tokens) check_least("max_new_tokens", *config.max_new_tokens, 1);
  if (*config.max_length <= prompt) {
    throw UsageError("the prompt has " + std::to_string(prompt) + " tokens, and max_length is " +
                     std::to_string(*config.max_length) + "; set max_new_tokens");
  }
  check_least("min_length", *config.min_length, 0);
  if (config.min_new_tokens) check_least("min_new_tokens", *config.min_new_tokens, 0);
  check_least("num_beams", *config.num_beams, 1);
  check_least("num_return_sequences", *config.num_return_sequences, 1);
  check_least("no_repeat_ngram_size", *config.no_repeat_ngram_size, 0);
  check_least("top_k", *config.top_k, 0);
  check_positive("temperature", *config.temperature);
  check_positive("repetition_penalty", *config.repetition_penalty);
  if (!(*config.top_p >= 0 && *config.top_p <= 1))
    throw UsageError("top_p is " + std::to_string(*config.top_p) + "; allowed are 0 to 1");
  if (config.eos_token_id && config.eos_token_id->empty())
    throw UsageError("eos_token_id is an empty list; allowed are one token or more");
  const std::int64_t beams = *config.num_beams, rows = *config.num_return_sequences;
  if (beams == 1 && rows > 1 && !*config.do_sample)
    throw UsageError("num_return_sequences is " + std::to_string(rows) +
                     ", but greedy search gives one sequence; set do_sample or num_beams");
  if (beams > 1 && rows > beams)
    throw UsageError("num_return_sequences is " + std::to_string(rows) + ", more than num_beams (" +
                     std::to_string(beams) + "); raise num_beams");
  if (beams > 1 && (options.stream_tokens || options.stream_text))
    throw UsageError(
        "beam search cannot stream, because it chooses its tokens at the end; leave out "
        "stream_tokens and stream_text");
}

// Throws UsageError for tokens that must be written but are no words of the model.
void check_words(const GenerationConfig& wanted, const PretrainedConfig& of_model,
                 bool has_encoder) {
  const auto words = of_model.get_if<std::int64_t>("vocab_size");
  const auto check_word = [&](const char* name, std::int64_t token) {
    if (words && (token < 0 || token >= *words))
      throw UsageError(std::string(name) + " is " + std::to_string(token) + "; allowed are 0 to " +
                       std::to_string(*words - 1) + ", the words of the model");
  };
  if (wanted.forced_bos_token_id) check_word("forced_bos_token_id", *wanted.forced_bos_token_id);
  if (wanted.forced_eos_token_id) {
    for (const std::int64_t token : *wanted.forced_eos_token_id)
      check_word("forced_eos_token_id", token);
  }
  if (!has_encoder) return;
  if (wanted.decoder_start_token_id) {
    check_word("decoder_start_token_id", *wanted.decoder_start_token_id);
  } else if (wanted.bos_token_id) {
    check_word("bos_token_id", *wanted.bos_token_id);
  }
}

// Takes max_length and the rest from the defaults. `prompt` is the number of tokens of the prompt.
GenerationConfig completed(GenerationConfig config, std::int64_t prompt, std::int64_t positions) {
  const bool has_max_length = config.max_length.has_value();
  config = config.or_else(kDefaults);
  if (config.eos_token_id && !config.eos_token_id->empty() && !config.pad_token_id)
    config.pad_token_id = config.eos_token_id->front();
  if (config.max_new_tokens) {
    constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
    config.max_length = prompt + std::min(*config.max_new_tokens, kMost - prompt);
  } else if (!has_max_length) {
    config.max_length = std::min(prompt + *config.max_length, positions);
  }
  return config;
}

bool is_one_of(std::int64_t token, const std::optional<std::vector<std::int64_t>>& tokens) {
  return tokens && std::ranges::find(*tokens, token) != tokens->end();
}

// Returns the mask, int64 {rows, tokens}, 0 at padding; undefined if there is no padding.
at::Tensor mask_of(const Inputs& inputs, const GenerationConfig& config, bool has_encoder) {
  const at::Tensor& ids = inputs["input_ids"];
  at::Tensor mask;
  if (inputs.contains("attention_mask")) {
    mask = inputs["attention_mask"].to(at::kLong);
    if (mask.sizes() != ids.sizes())
      throw UsageError("attention_mask has another shape than input_ids");
  } else if (!has_encoder && config.pad_token_id &&
             !is_one_of(*config.pad_token_id, config.eos_token_id)) {
    mask = ids.ne(*config.pad_token_id).to(at::kLong);
  }
  if (!mask.defined() || mask.ne(0).all().item<bool>()) return {};
  if (!has_encoder && mask.select(1, mask.size(1) - 1).eq(0).any().item<bool>()) {
    get_logger("models").warning(
        "the prompts of generate() are padded on the right, so new tokens follow the padding; set "
        "the tokenizer's padding_side to left");
  }
  return mask;
}

const Inputs& checked(const Inputs& inputs, bool has_encoder) {
  for (const auto& [name, tensor] : inputs) {
    if (name == "input_ids" || name == "attention_mask") continue;
    if (has_encoder && name == "decoder_input_ids") continue;
    throw UsageError(
        "generate() was given '" + name + "'; it takes input_ids" +
        (has_encoder ? ", attention_mask and decoder_input_ids" : " and attention_mask"));
  }
  if (!inputs.contains("input_ids")) throw UsageError("generate() was given no input_ids");
  const at::Tensor& ids = inputs["input_ids"];
  const char* const empty = ids.dim() != 2 || ids.numel() > 0 ? ""
                            : ids.size(0) == 0                ? ", without rows"
                                                              : ", without tokens";
  if (ids.dim() != 2 || ids.numel() == 0)
    throw UsageError("input_ids are " + c10::str(ids.sizes()) + empty +
                     "; allowed are {rows, tokens}, with one or more of each");
  return inputs;
}

// What continues the rows: a decoder, or the decoder of an encoder-decoder model.
struct Writer {
  TextModel& model;
  detail::Seq2SeqModel* sides;  // Null for a decoder.
  std::int64_t max_positions;
};

Writer writer_of(PreTrainedModel& model) {
  if (auto* decoder = dynamic_cast<detail::CausalLM*>(&model))
    return {*decoder, nullptr, decoder->max_positions()};
  if (auto* both = dynamic_cast<detail::Seq2SeqLM*>(&model))
    return {dynamic_cast<TextModel&>(model), &both->sides(), both->sides().max_positions()};
  const bool has_encoder = dynamic_cast<detail::Seq2SeqModel*>(&model) != nullptr;
  throw UsageError(model.name() +
                   " does not generate: it has no head for the next token. AutoModelFor" +
                   (has_encoder ? "Seq2SeqLM" : "CausalLM") + " opens the same weights with one");
}

// Returns the tokens that rows begin with, int64 {rows, tokens}.
at::Tensor prompt_of(const Inputs& inputs, const Writer& writer, const GenerationConfig& config) {
  const at::Tensor ids = inputs["input_ids"].to(at::kLong);
  if (writer.sides == nullptr) return ids;
  const auto start =
      config.decoder_start_token_id ? config.decoder_start_token_id : config.bos_token_id;
  if (!start)
    throw UsageError(
        "the decoder's first token is not known: set decoder_start_token_id or bos_token_id");
  const at::Tensor first = at::full({ids.size(0), 1}, *start, ids.options());
  if (!inputs.contains("decoder_input_ids")) return first;
  const at::Tensor given = inputs["decoder_input_ids"].to(at::kLong);
  if (given.dim() != 2 || given.numel() == 0 || given.size(0) != ids.size(0))
    throw UsageError("decoder_input_ids have another number of rows than input_ids, or no tokens");
  const bool begins = given.narrow(1, 0, 1).eq(first).any().item<bool>();
  return begins ? given : at::cat({first, given}, 1);
}

// CJK unified ideographs, with their extensions and the compatibility forms.
constexpr std::array<std::pair<char32_t, char32_t>, 8> kIdeographs{{{0x4E00, 0x9FFF},
                                                                    {0x3400, 0x4DBF},
                                                                    {0x20000, 0x2A6DF},
                                                                    {0x2A700, 0x2B73F},
                                                                    {0x2B740, 0x2B81F},
                                                                    {0x2B820, 0x2CEAF},
                                                                    {0xF900, 0xFAFF},
                                                                    {0x2F800, 0x2FA1F}}};

bool ends_with_ideograph(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && (static_cast<unsigned char>(text[--begin]) & 0xC0U) == 0x80U) {
  }
  std::string_view last = text.substr(begin);
  if (last.empty()) return false;
  const auto point = take_code_point(last);
  return point && std::ranges::any_of(kIdeographs, [&](const auto& range) {
           return range.first <= *point && *point <= range.second;
         });
}

// Decodes tokens that come one by one. Passes text to the sink as soon as no later token can change
// it: up to the last space, a line feed, or an ideograph. Source: `TextStreamer` of Transformers.
class TextStream {
 public:
  using Sink = std::function<void(std::string_view text)>;
  TextStream(PreTrainedTokenizer tokenizer, Sink sink)
      : tokenizer_(std::move(tokenizer)), sink_(std::move(sink)) {}

  void put(std::int64_t token) {
    tokens_.push_back(token);
    const std::string all = text();
    if (all.ends_with('\n')) {
      end();
    } else if (ends_with_ideograph(all)) {
      give(all);
    } else {
      const std::size_t space = all.rfind(' ');
      if (space != std::string::npos) give(std::string_view(all).substr(0, space + 1));
    }
  }
  // Passes the rest of the text to the sink.
  void end() {
    if (!tokens_.empty()) give(text());
    tokens_.clear();
    given_ = 0;
  }

 private:
  [[nodiscard]] std::string text() const {
    return tokenizer_.decode(tokens_, /*skip_special_tokens=*/true);
  }
  void give(std::string_view text) {
    if (text.size() <= given_) return;
    sink_(text.substr(given_));
    given_ = text.size();
  }

  PreTrainedTokenizer tokenizer_;
  Sink sink_;
  std::vector<std::int64_t> tokens_;  // The tokens of the current line.
  std::size_t given_ = 0;             // The bytes of their text that the sink has.
};

// Returns the function that is called with new tokens; empty if there is none. Makes `text` for
// stream_text.
detail::OnTokens stream_of(const GenerateOptions& options, std::int64_t rows,
                           std::optional<TextStream>& text) {
  if (options.stream_text) {
    if (!options.tokenizer)
      throw UsageError("stream_text is text, and generate() was given no tokenizer to read with");
    if (rows != 1)
      throw UsageError("stream_text gives the text of one row, and there are " +
                       std::to_string(rows) + "; stream_tokens gives all");
    text.emplace(*options.tokenizer, options.stream_text);
  }
  if (!text) return options.stream_tokens;
  return [&](const at::Tensor& tokens) {
    if (options.stream_tokens) options.stream_tokens(tokens);
    text->put(tokens.item<std::int64_t>());
  };
}

}  // namespace

at::Tensor PreTrainedModel::generate(const Inputs& inputs, const GenerationConfig& given,
                                     const GenerateOptions& options) {
  const Writer writer = writer_of(*this);
  const bool has_encoder = writer.sides != nullptr;
  (void)checked(inputs, has_encoder);
  const auto wanted = given.or_else(GenerationConfig::of(generation_config_.value_or(config_)));
  check_words(wanted, config_, has_encoder);
  at::Tensor ids = prompt_of(inputs, writer, wanted);
  const std::int64_t prompt = ids.size(1);
  const auto config = completed(wanted, prompt, writer.max_positions);
  check(config, prompt, options);
  const std::int64_t times = std::max(*config.num_beams, *config.num_return_sequences);
  std::optional<TextStream> text;
  const auto on_tokens = stream_of(options, ids.size(0) * times, text);

  at::Tensor found;
  {
    const c10::InferenceMode no_gradients;
    const compat::MatrixProducts products;
    at::Tensor mask = mask_of(inputs, config, has_encoder), encoder_outputs;
    if (has_encoder)
      encoder_outputs =
          writer.sides->encode({.input_ids = inputs["input_ids"], .attention_mask = mask});
    Continuation continuation(writer.model, mask, *config.use_cache, encoder_outputs);
    at::Tensor scores = continuation.next_scores(ids);
    if (times > 1) {  // The prompt is the same: it is computed once.
      const at::Tensor rows = at::arange(ids.size(0), ids.options()).repeat_interleave(times);
      continuation.select_rows(rows);
      ids = ids.index_select(0, rows);
      scores = scores.index_select(0, rows);
      if (mask.defined()) mask = mask.index_select(0, rows);
    }
    const bool is_padded = mask.defined() && !has_encoder;  // The prompt.
    const at::Tensor first = is_padded ? at::argmax(mask.ne(0).to(at::kInt), 1) : at::Tensor();
    const detail::Search search{config, detail::ScoreSteps(config, prompt, first),
                                detail::Stopping(config, options.tokenizer)};
    found = *config.num_beams > 1 ? beam_search(continuation, ids, scores, search)
                                  : sample(continuation, ids, scores, search, on_tokens);
  }
  if (text) text->end();
  return found.clone();  // Outside of InferenceMode, so that it is an ordinary tensor.
}

}  // namespace accelerate
