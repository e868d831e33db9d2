// The fields of a SentencePiece `.model`, a message of protocol buffers, that tokenizing needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

struct SentencePieceModel {
  enum class Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  enum class Algorithm { unigram = 1, bpe = 2, word = 3, character = 4 };

  std::vector<Piece> pieces;
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  std::int32_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = -1;
  /// The dummy blank comes at the end of a text, and pieces end with their blank.
  bool treats_whitespace_as_suffix = false;
  /// Normalization: the rules of Precompiled, "" for none.
  std::string charsmap;
  bool adds_dummy_prefix = true, removes_extra_whitespaces = true, escapes_whitespaces = true;
};

/// Reads a model. Throws FileError if it cannot be read, ConfigError if it is not a SentencePiece
/// model. Source of the field numbers: sentencepiece_model.proto.
[[nodiscard]] SentencePieceModel read_sentencepiece(const std::filesystem::path& file);
/// Parses the bytes of a model; `name` stands for the file in messages. Throws ConfigError.
[[nodiscard]] SentencePieceModel parse_sentencepiece(std::string_view bytes,
                                                     const std::string& name);

}  // namespace accelerate::detail
