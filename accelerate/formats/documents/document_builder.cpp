#include "accelerate/formats/documents/document_builder.h"

#include <algorithm>
#include <cstdio>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

int line_of(std::string_view text, std::size_t offset) {
  return 1 +
         static_cast<int>(std::count(text.begin(), text.begin() + static_cast<long>(offset), '\n'));
}

// Returns the length in bytes of the sequence that starts with `lead`; 0 if no sequence starts so.
int sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Returns the code point at `offset` and moves `offset` behind it. Returns nullopt for ill-formed
// bytes: truncated, overlong, a surrogate, or beyond U+10FFFF.
std::optional<char32_t> next_code_point(std::string_view text, std::size_t& offset) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const auto lead = static_cast<unsigned char>(text[offset]);
  const int length = sequence_length(lead);
  if (length == 0 || offset + static_cast<std::size_t>(length) > text.size()) return std::nullopt;
  char32_t point = length == 1 ? lead : lead & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[offset + static_cast<std::size_t>(i)]);
    if ((byte & 0xC0) != 0x80) return std::nullopt;
    point = point << 6 | (byte & 0x3F);
  }
  if (point < kSmallest[length] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) {
    return std::nullopt;
  }
  offset += static_cast<std::size_t>(length);
  return point;
}

bool is_control(char32_t point) {
  return (point < 0x20 && point != '\t' && point != '\n' && point != '\r') || point == 0x7F;
}

template <typename Visit>
void for_each_code_point(std::string_view text, const std::string& name, Visit visit) {
  for (std::size_t offset = 0; offset < text.size();) {
    const std::size_t start = offset;
    const auto point = next_code_point(text, offset);
    if (!point) fail_at(name, line_of(text, start), "the file is not UTF-8 text; save it as UTF-8");
    visit(*point, start);
  }
}

}  // namespace

void fail_at(const std::string& name, int line, const std::string& message, ErrorName situation) {
  throw ConfigError(name + (line > 0 ? ", line " + std::to_string(line) : "") + ": " + message,
                    situation);
}

std::u32string decode_utf8(std::string_view utf8) {
  std::u32string points;
  points.reserve(utf8.size());
  for_each_code_point(utf8, "the text to write",
                      [&](char32_t point, std::size_t) { points.push_back(point); });
  return points;
}

std::string mend_latin1(std::string_view text) {
  std::string mended;
  for (std::size_t offset = 0; offset < text.size();) {
    const std::size_t start = offset;
    if (next_code_point(text, offset)) {
      mended += text.substr(start, offset - start);
    } else {
      mended += '\xC2';
      mended += text[offset++];
    }
  }
  return mended;
}

void check_text(std::string_view text, const std::string& name, const DocumentLimits& limits) {
  if (text.size() > limits.max_bytes) {
    fail_at(name, 0,
            "the file has " + format_bytes(static_cast<double>(text.size())) + "; at most " +
                format_bytes(static_cast<double>(limits.max_bytes)) +
                " are read. Is it the right file?");
  }
  for_each_code_point(text, name, [&](char32_t point, std::size_t offset) {
    if (!is_control(point)) return;
    char code[8];
    std::snprintf(code, sizeof code, "0x%02X", static_cast<unsigned>(point));
    fail_at(name, line_of(text, offset),
            std::string("the control character ") + code +
                " is not allowed in a text file; "
                "is this a binary file?");
  });
}

bool DocumentBuilder::wants_key() const {
  return !open_.empty() && open_.back().node.is_map() && !open_.back().has_key;
}

void DocumentBuilder::begin(Node::Kind kind, int line) {
  if (wants_key())
    fail(line, "a list or a map stands where a key must be a plain word; is a bracket left open?");
  if (static_cast<int>(open_.size()) >= limits_.max_depth) {
    fail(line,
         "lists and maps are nested deeper than " + std::to_string(limits_.max_depth) + " levels");
  }
  Level& level = open_.emplace_back();
  level.node.kind = kind;
  level.node.line = line;
}

void DocumentBuilder::end() {
  Node node = std::move(open_.back().node);
  open_.pop_back();
  attach(std::move(node));
}

void DocumentBuilder::scalar(Node value) {
  attach(std::move(value));
}

void DocumentBuilder::key(std::string text, int line) {
  Level& level = open_.back();
  const auto [known, is_new] = level.lines_of_keys.emplace(text, line);
  if (!is_new) {
    fail(line, "the key '" + text + "' appears twice; it was first set on line " +
                   std::to_string(known->second) + ". Remove one of them");
  }
  level.node.entries.push_back({std::move(text), line, {}});
  level.has_key = true;
}

void DocumentBuilder::attach(Node value) {
  if (open_.empty()) {
    root_ = std::move(value);
    return;
  }
  Level& level = open_.back();
  if (level.node.is_map()) {
    level.node.entries.back().value = std::move(value);
    level.has_key = false;
  } else {
    level.node.items.push_back(std::move(value));
  }
}

}  // namespace accelerate::detail
