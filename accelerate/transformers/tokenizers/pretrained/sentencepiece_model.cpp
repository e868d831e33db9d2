#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_model.h"

#include <bit>
#include <cmath>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

enum class Wire { number = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

// One field of a message: a number, or bytes.
struct Field {
  std::uint32_t number = 0;
  Wire wire = Wire::number;
  std::uint64_t value = 0;
  std::string_view bytes;
};

// The whole model, for messages.
struct Source {
  std::string_view bytes;
  const std::string& name;
};

// A message of protocol buffers, field by field.
class Message {
 public:
  Message(std::string_view bytes, const Source& source) : bytes_(bytes), source_(source) {}

  template <typename Visit>
  void each(Visit visit) {
    while (!bytes_.empty()) visit(next());
  }

  [[noreturn]] void refuse(const std::string& what) const {
    const auto place = bytes_.data() - source_.bytes.data();
    throw ConfigError(source_.name + ": " + what + ", before byte " + std::to_string(place) +
                      " of " + std::to_string(source_.bytes.size()) +
                      "; allowed is a SentencePiece model");
  }

  /// Returns the value of `field`. Throws ConfigError if it is of another kind.
  [[nodiscard]] std::uint64_t number_of(const Field& field) const {
    check(field, Wire::number, "a number");
    return field.value;
  }
  [[nodiscard]] std::string_view bytes_of(const Field& field) const {
    check(field, Wire::bytes, "bytes");
    return field.bytes;
  }
  [[nodiscard]] float float_of(const Field& field) const {
    check(field, Wire::four_bytes, "a float");
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i)
      bits |= static_cast<std::uint32_t>(static_cast<unsigned char>(field.bytes[i])) << (8 * i);
    const float value = std::bit_cast<float>(bits);
    if (!std::isfinite(value)) refuse("has a score that is not a finite number");
    return value;
  }

 private:
  void check(const Field& field, Wire wire, const char* allowed) const {
    if (field.wire != wire)
      refuse("has the field " + std::to_string(field.number) + " as another kind than " + allowed);
  }

  Field next() {
    const std::uint64_t tag = varint();
    Field field;
    field.number = static_cast<std::uint32_t>(tag >> 3);
    field.wire = static_cast<Wire>(tag & 7);
    switch (tag & 7) {
      case 0:
        field.value = varint();
        break;
      case 1:
        field.bytes = take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.bytes = take(4);
        break;
      default:
        refuse("has a field of the unknown kind " + std::to_string(tag & 7));
    }
    return field;
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("has a number of more than 64 bits");
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) refuse("ends within a field");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  std::string_view bytes_;
  const Source& source_;
};

// Reads a choice from 1 to `last`.
template <typename Choice>
Choice choice_of(const Message& message, const Field& field, Choice last, const char* what) {
  const std::uint64_t value = message.number_of(field);
  if (value < 1 || value > static_cast<std::uint64_t>(last))
    message.refuse("names the unknown " + std::string(what) + " " + std::to_string(value));
  return static_cast<Choice>(value);
}

SentencePieceModel::Piece read_piece(std::string_view bytes, const Source& source) {
  SentencePieceModel::Piece piece;
  Message message(bytes, source);
  message.each([&](const Field& field) {
    if (field.number == 1) piece.text = message.bytes_of(field);
    if (field.number == 2) piece.score = message.float_of(field);
    if (field.number == 3)
      piece.kind = choice_of(message, field, SentencePieceModel::Kind::byte, "type of a piece");
  });
  if (!is_utf8(piece.text)) message.refuse("has a piece that is not UTF-8");
  return piece;
}

void read_trainer(std::string_view bytes, const Source& source, SentencePieceModel& model) {
  using Algorithm = SentencePieceModel::Algorithm;
  Message message(bytes, source);
  message.each([&](const Field& field) {
    const auto id = [&] { return static_cast<std::int32_t>(message.number_of(field)); };
    if (field.number == 3)
      model.algorithm = choice_of(message, field, Algorithm::character, "algorithm");
    if (field.number == 24) model.treats_whitespace_as_suffix = message.number_of(field) != 0;
    if (field.number == 35) model.byte_fallback = message.number_of(field) != 0;
    if (field.number == 40) model.unk_id = id();
    if (field.number == 41) model.bos_id = id();
    if (field.number == 42) model.eos_id = id();
    if (field.number == 43) model.pad_id = id();
  });
}

void read_normalizer(std::string_view bytes, const Source& source, SentencePieceModel& model) {
  Message message(bytes, source);
  message.each([&](const Field& field) {
    const auto flag = [&] { return message.number_of(field) != 0; };
    if (field.number == 2) model.charsmap = message.bytes_of(field);
    if (field.number == 3) model.adds_dummy_prefix = flag();
    if (field.number == 4) model.removes_extra_whitespaces = flag();
    if (field.number == 5) model.escapes_whitespaces = flag();
  });
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& name) {
  SentencePieceModel model;
  const Source source{bytes, name};
  Message message(bytes, source);
  message.each([&](const Field& field) {
    if (field.number == 1) model.pieces.push_back(read_piece(message.bytes_of(field), source));
    if (field.number == 2) read_trainer(message.bytes_of(field), source, model);
    if (field.number == 3) read_normalizer(message.bytes_of(field), source, model);
  });
  if (model.pieces.empty()) message.refuse("has no pieces");
  if (model.unk_id >= static_cast<std::int64_t>(model.pieces.size()))
    message.refuse("names " + std::to_string(model.unk_id) + " as its unknown token and has " +
                   std::to_string(model.pieces.size()) + " pieces");
  return model;
}

SentencePieceModel read_sentencepiece(const std::filesystem::path& file) {
  const auto content = real_file_system().map(file);
  return parse_sentencepiece(byte_text(content->bytes()), file.string());
}

}  // namespace accelerate::detail
