#include "accelerate/transformers/tokenizers/tokenizer.h"

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/parallel_work.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/tokenizers/encoding_parts.h"
#include "accelerate/transformers/tokenizers/json_view.h"
#include "accelerate/transformers/tokenizers/pipeline.h"
#include "accelerate/transformers/tokenizers/tokenizer_file.h"
#include "accelerate/transformers/tokenizers/unicode/code_points.h"

namespace accelerate {

using detail::JsonView;
using detail::kNoId;

struct Tokenizer::Shared {
  detail::Pipeline pipeline;
  mutable detail::ScratchPool scratches;
  std::string model_type;
  /// The text of the tokenizer.json that this was read from.
  std::string source;

  [[nodiscard]] Encoding tokenize(std::string_view text, const EncodeOptions& options) const;
  [[nodiscard]] Encoding tokenize(std::span<const std::string> words,
                                  const EncodeOptions& options) const;
};

namespace {

void read_pipeline(const JsonView& root, std::string_view document, detail::Pipeline& pipeline) {
  if (const auto json = root.find("normalizer"))
    pipeline.normalizer = detail::read_normalizer(*json);
  if (const auto json = root.find("pre_tokenizer"))
    pipeline.pre_tokenizer = detail::read_pre_tokenizer(*json);
  if (const auto json = root.find("post_processor"))
    pipeline.post_processor = detail::read_post_processor(*json);
  if (const auto json = root.find("decoder")) pipeline.decoder = detail::read_decoder(*json);
  pipeline.model = detail::read_model(root.at("model"), document);
  for (const auto& [id, token] : detail::read_added_tokens(root)) pipeline.added.add(token, id);
  pipeline.added.prepare(pipeline.normalizer.get());
}

void check_content(const std::string& content) {
  if (is_utf8(content)) return;
  throw UsageError("the token '" + detail::replace_malformed(content) +
                   "' cannot be added: it is not UTF-8");
}

// Returns the place of the first byte that is not UTF-8.
std::size_t first_malformed(std::string_view text) {
  std::string_view rest = text;
  std::size_t place = 0;
  while (!rest.empty() && take_code_point(rest)) place = text.size() - rest.size();
  return place;
}

bool is_ascii(std::string_view text) {
  unsigned char all = 0;
  for (const char byte : text) all |= static_cast<unsigned char>(byte);
  return all < 0x80;
}

// Converts the offsets from bytes to code points.
void count_in_code_points(std::string_view text, Encoding& encoding) {
  std::vector<std::uint32_t> counts(text.size() + 1);
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    counts[i] = count;
    if (i + 1 == text.size() || detail::begins_character(text[i + 1])) ++count;
  }
  counts[text.size()] = count;
  const auto count_of = [&](std::uint32_t byte) {
    return counts[std::min<std::size_t>(byte, text.size())];
  };
  for (auto& [begin, end] : encoding.offsets) {
    begin = count_of(begin);
    end = count_of(end);
  }
}

}  // namespace

Tokenizer Tokenizer::from_text(std::string text, const std::string& name, ScoreRounding rounding) {
  auto shared = std::make_shared<Shared>();
  shared->source = std::move(text);
  const detail::JsonDocument document(shared->source, name);
  const bool rounds_alike = rounding == ScoreRounding::as_original;
  read_pipeline(document.root(), rounds_alike ? shared->source : "", shared->pipeline);
  shared->model_type = detail::model_type(document.root().at("model"));
  Tokenizer tokenizer(std::move(shared));
  tokenizer.truncation_ = detail::read_truncation(document.root());
  tokenizer.padding_ = detail::read_padding(document.root());
  return tokenizer;
}

Tokenizer Tokenizer::from_file(const std::filesystem::path& file, ScoreRounding rounding) {
  const auto content = real_file_system().map(file);
  return from_text(std::string(detail::byte_text(content->bytes())), file.string(), rounding);
}

Encoding Tokenizer::Shared::tokenize(std::string_view text, const EncodeOptions& options) const {
  std::string repaired;
  const bool is_plain = is_ascii(text);
  if (!is_plain && !is_utf8(text)) {
    if (options.strict)
      throw DataError("a text is not UTF-8 at its byte " + std::to_string(first_malformed(text)) +
                      "; EncodeOptions::strict allows nothing else");
    text = repaired = detail::replace_malformed(text);
  }
  if (text.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw UsageError("a text of " + std::to_string(text.size()) +
                     " bytes was given; allowed are fewer than 4 GiB");
  }
  auto scratch = scratches.take(*pipeline.model);
  Encoding encoding = pipeline.tokenize(text, *scratch, options.split_special_tokens);
  scratches.give_back(std::move(scratch));
  if (!is_plain && !options.offsets_in_bytes) count_in_code_points(text, encoding);
  return encoding;
}

Encoding Tokenizer::Shared::tokenize(std::span<const std::string> words,
                                     const EncodeOptions& options) const {
  Encoding whole;
  for (std::size_t i = 0; i < words.size(); ++i) {
    Encoding word = tokenize(std::string_view(words[i]), options);
    std::ranges::fill(word.words, static_cast<std::int32_t>(i));
    detail::append(whole, std::move(word));
  }
  return whole;
}

template <typename Input>
Encoding Tokenizer::encode_unpadded(const Input& input, const EncodeOptions& options) const {
  std::vector<Encoding> texts;
  texts.push_back(shared_->tokenize(input.text, options));
  if (input.pair) {
    texts.push_back(shared_->tokenize(*input.pair, options));
    texts[1].type_ids.assign(texts[1].size(), 1);
    texts[1].sequences.assign(texts[1].size(), 1);
  }
  return process(std::move(texts), options.add_special_tokens);
}

Encoding Tokenizer::process(std::vector<Encoding> texts, bool adds_special_tokens) const {
  const auto* processor = shared_->pipeline.post_processor.get();
  if (truncation_) {
    TruncationOptions options = *truncation_;
    const std::size_t added =
        adds_special_tokens && processor != nullptr ? processor->added(texts.size() > 1) : 0;
    if (added > options.max_length) {
      throw UsageError("truncation to " + std::to_string(options.max_length) +
                       " tokens leaves no room for " + std::to_string(added) +
                       " special tokens. Raise max_length");
    }
    options.max_length -= added;
    detail::truncate(texts, options);
  }
  if (processor != nullptr) processor->process(texts, adds_special_tokens);
  Encoding whole;
  if (texts.size() > 1) {
    std::size_t size = 0;
    for (const Encoding& text : texts) size += text.size();
    detail::reserve(texts[0], size);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i == 0) {
      whole = std::move(texts[0]);
    } else {
      detail::append(whole, std::move(texts[i]));
    }
  }
  return whole;
}

Encoding Tokenizer::encode(const TextInput& input, const EncodeOptions& options) const {
  Encoding encoding = encode_unpadded(input, options);
  if (padding_) detail::pad(std::span(&encoding, 1), *padding_);
  return encoding;
}

Encoding Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return encode(TextInput{text}, options);
}

template <typename Input>
std::vector<Encoding> Tokenizer::encode_all(std::span<const Input> inputs,
                                            const EncodeOptions& options) const {
  std::vector<Encoding> batch(inputs.size());
  const std::size_t threads = std::clamp<std::size_t>(
      inputs.size() / 4, 1, std::max(1U, std::thread::hardware_concurrency()));
  detail::for_each_parallel(inputs.size(), threads, [&](const auto& next) {
    while (const auto i = next()) batch[*i] = encode_unpadded(inputs[*i], options);
  });
  if (padding_) detail::pad(batch, *padding_);
  return batch;
}

std::vector<Encoding> Tokenizer::encode_batch(std::span<const TextInput> inputs,
                                              const EncodeOptions& options) const {
  return encode_all(inputs, options);
}

std::vector<Encoding> Tokenizer::encode_words(std::span<const WordsInput> inputs,
                                              const EncodeOptions& options) const {
  return encode_all(inputs, options);
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids, bool skip_special_tokens) const {
  std::vector<std::string> tokens;
  for (const std::uint32_t id : ids) {
    auto token = id_to_token(id);
    if (token && !(skip_special_tokens && shared_->pipeline.added.is_special(*token)))
      tokens.push_back(std::move(*token));
  }
  return join(std::move(tokens));
}

std::string Tokenizer::join(std::vector<std::string> tokens) const {
  for (std::string& token : tokens) {
    if (!is_utf8(token)) token = detail::replace_malformed(token);
  }
  const auto* decoder = shared_->pipeline.decoder.get();
  if (decoder != nullptr) tokens = decoder->apply(std::move(tokens));
  std::string text;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (decoder == nullptr && i > 0) text += ' ';
    text += tokens[i];
  }
  return text;
}

std::optional<std::uint32_t> Tokenizer::token_to_id(std::string_view token) const {
  std::uint32_t id = shared_->pipeline.added.find(token);
  if (id == kNoId) id = shared_->pipeline.model->vocabulary().find(token);
  if (id == kNoId) return std::nullopt;
  return id;
}

std::optional<std::string> Tokenizer::id_to_token(std::uint32_t id) const {
  if (const auto* added = shared_->pipeline.added.text_of(id)) return *added;
  if (const auto word = shared_->pipeline.model->vocabulary().word_of(id))
    return std::string(*word);
  return std::nullopt;
}

std::size_t Tokenizer::vocab_size(bool with_added_tokens) const {
  const auto& vocabulary = shared_->pipeline.model->vocabulary();
  std::size_t count = vocabulary.size();
  for (const auto& [id, token] : shared_->pipeline.added.tokens()) {
    if (with_added_tokens && vocabulary.find(token.content) == kNoId) ++count;
  }
  return count;
}

std::size_t Tokenizer::add_tokens(const std::vector<AddedToken>& tokens) {
  auto& added = shared_->pipeline.added;
  std::size_t count = 0;
  for (const AddedToken& token : tokens) {
    if (token.content.empty()) continue;
    check_content(token.content);
    const auto known = token_to_id(token.content);
    if (!known) ++count;
    added.add(token, known.value_or(next_id()));
  }
  added.prepare(shared_->pipeline.normalizer.get());
  return count;
}

std::uint32_t Tokenizer::next_id() const {
  const auto words = static_cast<std::uint32_t>(vocab_size(/*with_added_tokens=*/false));
  const auto& added = added_tokens();
  if (added.empty()) return words;
  if (added.rbegin()->first + 1 == kNoId)
    throw UsageError("a token cannot be added: the id " + std::to_string(kNoId - 1) +
                     " is taken, and none is above it");
  return std::max(words, added.rbegin()->first + 1);
}

const std::map<std::uint32_t, AddedToken>& Tokenizer::added_tokens() const {
  return shared_->pipeline.added.tokens();
}

const std::string& Tokenizer::model_type() const {
  return shared_->model_type;
}

std::size_t Tokenizer::num_special_tokens_to_add(bool is_pair) const {
  const auto* processor = shared_->pipeline.post_processor.get();
  return processor == nullptr ? 0 : processor->added(is_pair);
}

std::string Tokenizer::to_text() const {
  return detail::write_tokenizer_file(shared_->source, added_tokens(), truncation_, padding_);
}

}  // namespace accelerate
