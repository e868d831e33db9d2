#include "accelerate/transformers/tokenizers/models/token_finder.h"

#include <algorithm>
#include <numeric>
#include <ranges>
#include <utility>

namespace accelerate::detail {

void TokenFinder::add(std::string_view token, std::uint32_t id) {
  std::uint32_t node = 0;
  for (const char byte : token | std::views::reverse)
    node = make_child(node, static_cast<unsigned char>(byte));
  if (nodes_[node].token_bytes == nodes_[node].bytes) return;
  nodes_[node].id = id;
  nodes_[node].token_bytes = nodes_[node].bytes;
}

std::uint32_t TokenFinder::make_child(std::uint32_t node, unsigned char byte) {
  if (const std::uint32_t there = child(node, byte); there != kNoId) return there;
  const auto made = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({.parent = node, .bytes = nodes_[node].bytes + 1, .byte = byte});
  if (node == 0) return first_[byte] = made;
  if (2 * nodes_.size() > edges_.size()) {
    const auto before = std::exchange(edges_, std::vector<Edge>(2 * edges_.size()));
    --shift_;
    for (const Edge& edge : before) {
      if (edge.key != kFree) edges_[slot_of(edge.key)] = edge;
    }
  }
  const std::uint64_t key = key_of(node, byte);
  edges_[slot_of(key)] = {key, made};
  return made;
}

std::uint32_t TokenFinder::next(std::uint32_t node, unsigned char byte,
                                std::size_t& looked_up) const {
  for (;; node = nodes_[node].fallback) {
    ++looked_up;
    if (const std::uint32_t to = child(node, byte); to != kNoId) return to;
    if (node == 0) return 0;
  }
}

void TokenFinder::prepare() {
  std::vector<std::uint32_t> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t node) { return nodes_[node].bytes; });
  std::size_t looked_up = 0;
  for (const std::uint32_t i : order) {
    Node& node = nodes_[i];
    if (node.bytes > 1) node.fallback = next(nodes_[node.parent].fallback, node.byte, looked_up);
    if (node.bytes == node.token_bytes) continue;
    node.id = nodes_[node.fallback].id;
    node.token_bytes = nodes_[node.fallback].token_bytes;
  }
}

std::size_t TokenFinder::find_all(std::string_view text, std::vector<Found>& found) const {
  std::vector<Found> from_end;
  std::size_t looked_up = 0;
  if (nodes_.size() == 1) return 0;
  std::uint32_t node = 0;
  for (auto at = static_cast<std::uint32_t>(text.size()); at-- > 0;) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (node == 0 && first_[byte] == kNoId) continue;  // Most bytes end no token.
    node = next(node, byte, looked_up);
    if (const auto& [id, bytes] = std::pair(nodes_[node].id, nodes_[node].token_bytes); bytes > 0)
      from_end.push_back({{at, at + bytes}, id});
  }
  std::uint32_t end = 0;
  for (const Found& token : from_end | std::views::reverse) {
    if (token.range.begin < end) continue;
    found.push_back(token);
    end = token.range.end;
  }
  return looked_up;
}

}  // namespace accelerate::detail
