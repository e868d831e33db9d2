#include "accelerate/formats/documents/document.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace accelerate {
namespace {

// Writes an exponent outside [1e-4, 1e16), as Python does. YAML 1.1 wants a point before the
// exponent.
std::string shortest_text(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  const double size = std::fabs(value);
  const bool positional = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto format = positional ? std::chars_format::fixed : std::chars_format::scientific;
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, format).ptr;
  std::string text(buffer.data(), end);
  if (text.find('.') == std::string::npos) text.insert(std::min(text.find('e'), text.size()), ".0");
  return text;
}

}  // namespace

Node Node::null() {
  return {};
}

Node Node::plain(std::string text) {
  Node node;
  node.kind = Kind::scalar;
  node.text = std::move(text);
  return node;
}

Node Node::string(std::string text) {
  Node node = plain(std::move(text));
  node.quoted = true;
  return node;
}

Node Node::boolean(bool value) {
  return plain(value ? "true" : "false");
}

Node Node::integer(std::int64_t value) {
  return plain(std::to_string(value));
}

Node Node::real(double value) {
  return plain(shortest_text(value));
}

Node Node::sequence() {
  return sequence(std::vector<Node>());
}

Node Node::map() {
  return map(std::vector<NodeEntry>());
}

Node Node::sequence(std::vector<Node> items) {
  Node node;
  node.kind = Kind::sequence;
  node.items = std::move(items);
  return node;
}

Node Node::map(std::vector<NodeEntry> entries) {
  Node node;
  node.kind = Kind::map;
  node.entries = std::move(entries);
  return node;
}

const Node* Node::find(std::string_view key) const {
  for (const NodeEntry& entry : entries) {
    if (entry.key == key) return &entry.value;
  }
  return nullptr;
}

std::string Node::describe() const {
  constexpr std::size_t kMaxShown = 60;
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::sequence:
      return "a list";
    case Kind::map:
      return "a map";
    case Kind::scalar:
      break;
  }
  return "'" + (text.size() > kMaxShown ? text.substr(0, kMaxShown) + "…" : text) + "'";
}

}  // namespace accelerate
