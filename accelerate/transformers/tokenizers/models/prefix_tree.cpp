#include "accelerate/transformers/tokenizers/models/prefix_tree.h"

#include <utility>

namespace accelerate::detail {

void PrefixTree::add(std::string_view word, std::uint32_t id) {
  std::uint32_t node = 0;
  for (const char byte : word) node = make_child(node, static_cast<unsigned char>(byte));
  if (node != 0) ids_[node] = id;
}

std::uint32_t PrefixTree::make_child(std::uint32_t node, unsigned char byte) {
  if (const std::uint32_t there = child(node, byte); there != kNoId) return there;
  const auto made = static_cast<std::uint32_t>(ids_.size());
  ids_.push_back(kNoId);
  if (node == 0) return first_[byte] = made;
  if (2 * ++used_ > edges_.size()) grow();
  const std::uint64_t key = key_of(node, byte);
  edges_[slot_of(key)] = {key, made};
  return made;
}

void PrefixTree::grow() {
  const auto before = std::exchange(edges_, std::vector<Edge>(2 * edges_.size()));
  --shift_;
  for (const Edge& edge : before) {
    if (edge.key != kFree) edges_[slot_of(edge.key)] = edge;
  }
}

}  // namespace accelerate::detail
