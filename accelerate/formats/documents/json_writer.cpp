#include <algorithm>
#include <array>
#include <cstdio>
#include <vector>

#include "accelerate/formats/documents/document_builder.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate {
namespace {

using detail::ascii_json_string;

void append_unit(std::string& out, unsigned unit) {
  std::array<char, 16> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit);
  out += buffer.data();
}

// Characters beyond the basic plane are escaped as a pair of UTF-16 surrogates.
void append_escaped(std::string& out, char32_t c) {
  constexpr std::pair<char32_t, char> kNamed[] = {{U'"', '"'},  {U'\\', '\\'}, {U'\b', 'b'},
                                                  {U'\f', 'f'}, {U'\n', 'n'},  {U'\r', 'r'},
                                                  {U'\t', 't'}};
  for (const auto& [from, letter] : kNamed) {
    if (c == from) {
      out += {'\\', letter};
      return;
    }
  }
  if (c >= 0x20 && c <= 0x7E) {
    out += static_cast<char>(c);
  } else if (c <= 0xFFFF) {
    append_unit(out, c);
  } else {
    append_unit(out, 0xD800 + ((c - 0x10000) >> 10));
    append_unit(out, 0xDC00 + ((c - 0x10000) & 0x3FF));
  }
}

// Turns YAML's spelling of a float into Python's: ".inf" → "Infinity", "1.0e-05" → "1e-05".
std::string json_real(std::string text) {
  if (text == ".nan") return "NaN";
  if (text == ".inf") return "Infinity";
  if (text == "-.inf") return "-Infinity";
  if (const auto at = text.find(".0e"); at != std::string::npos) text.erase(at, 2);
  return text;
}

std::string json_scalar(const Node& node) {
  if (node.quoted) return ascii_json_string(node.text);
  switch (resolve_scalar(node.text)) {
    case ScalarKind::null:
      return "null";
    case ScalarKind::boolean:
    case ScalarKind::integer:
      return node.text;
    case ScalarKind::real:
      return json_real(node.text);
    default:
      return ascii_json_string(node.text);
  }
}

class Writer {
 public:
  std::string document(const Node& node) {
    write(node);
    return std::move(out_) + '\n';
  }

 private:
  void write(const Node& node) {
    switch (node.kind) {
      case Node::Kind::null:
        out_ += "null";
        break;
      case Node::Kind::scalar:
        out_ += json_scalar(node);
        break;
      case Node::Kind::sequence:
        write_sequence(node);
        break;
      case Node::Kind::map:
        write_map(node);
        break;
    }
  }

  void write_sequence(const Node& node) {
    enclose('[', ']', node.items, [this](const Node& item) { write(item); });
  }

  void write_map(const Node& node) {
    std::vector<const NodeEntry*> sorted;
    for (const NodeEntry& entry : node.entries) sorted.push_back(&entry);
    std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->key < b->key; });
    enclose('{', '}', sorted, [this](const NodeEntry* entry) {
      out_ += ascii_json_string(entry->key) + ": ";
      write(entry->value);
    });
  }

  template <typename Items, typename WriteItem>
  void enclose(char open, char close, const Items& items, WriteItem write_item) {
    out_ += open;
    ++depth_;
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ',';
      first = false;
      new_line();
      write_item(item);
    }
    --depth_;
    if (!first) new_line();
    out_ += close;
  }

  void new_line() { out_ += '\n' + std::string(2 * depth_, ' '); }

  std::string out_;
  std::size_t depth_ = 0;
};

}  // namespace

std::string write_json(const Node& node) {
  return Writer().document(node);
}

std::string detail::ascii_json_string(std::string_view text) {
  std::string out = "\"";
  for (const char32_t c : decode_utf8(text)) append_escaped(out, c);
  return out + '"';
}

}  // namespace accelerate
