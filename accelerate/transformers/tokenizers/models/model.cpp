#include "accelerate/transformers/tokenizers/models/model.h"

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/tokenizers/text/byte_letters.h"

namespace accelerate::detail {

void Model::tokenize_bytes(std::string_view piece, Scratch& scratch,
                           std::vector<PieceToken>& out) const {
  const std::size_t before = out.size();
  const std::string letters = to_byte_letters(piece);
  tokenize(letters, scratch, out);
  for (std::size_t i = before; i < out.size(); ++i) {
    out[i].begin = static_cast<std::uint32_t>(count_byte_letters(letters, out[i].begin));
    out[i].end = static_cast<std::uint32_t>(count_byte_letters(letters, out[i].end));
  }
}

void Model::refuse_unknown(std::string_view text, const std::string& lack) const {
  throw ConfigError(place_ + " knows no token of '" + std::string(fit_bytes(text, 40)) + "', and " +
                    lack);
}

void read_vocabulary(const JsonView& json, Vocabulary& vocabulary) {
  std::size_t words = 0, bytes = 0;
  for (const auto& [word, id] : json.map()) {
    ++words;
    bytes += word.size();
  }
  vocabulary.reserve(words, bytes);
  for (const auto& [word, value] : json.map()) {
    std::uint64_t id = 0;
    if (value.get(id) != simdjson::SUCCESS || id >= kNoId) {
      json.refuse("gives '" + std::string(word) + "' the id " + simdjson::minify(value) +
                  "; allowed are whole numbers from 0 on");
    }
    try {
      vocabulary.add(word, static_cast<std::uint32_t>(id));
    } catch (const ConfigError& error) {
      json.refuse(error.what());
    }
  }
}

std::string model_type(const JsonView& json) {
  if (const auto type = json.find("type")) return std::string(type->text());
  if (json.find("merges")) return "BPE";
  if (json.find("unk_id") || json.at("vocab").is_list()) return "Unigram";
  return json.find("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
}

std::unique_ptr<Model> read_model(const JsonView& json, std::string_view document) {
  const std::string type = model_type(json);
  if (type == "WordPiece") return read_word_piece(json);
  if (type == "BPE") return read_bpe(json);
  if (type == "Unigram") return read_unigram(json, document);
  if (type == "WordLevel") return read_word_level(json);
  json.refuse("is of the type '" + type + "'; allowed are BPE, Unigram, WordLevel, WordPiece",
              error_name::kUnknownTokenizer);
}

}  // namespace accelerate::detail
