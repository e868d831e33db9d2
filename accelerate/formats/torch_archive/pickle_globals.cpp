#include <algorithm>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/formats/safetensors/safetensors_header.h"
#include "accelerate/formats/torch_archive/pickle_machine.h"

namespace accelerate::detail {

std::string_view allowed_global(std::string_view module, std::string_view name,
                                std::span<const std::string_view> allowed) {
  const std::string full = std::string(module) + "." + std::string(name);
  const bool script = module == kScriptClasses || module.starts_with("__torch__.");
  const std::string_view wanted = script ? kScriptClasses : std::string_view(full);
  const auto place = std::ranges::lower_bound(allowed, wanted);
  if (place != allowed.end() && *place == wanted) return *place;
  throw CheckpointError(
      "its pickle asks for " + printable(full) +
          ", which is not a tensor, number, text or container of Python; such an object is never "
          "made, "
          "because making it can run any program. In Python save the tensors alone "
          "(model.state_dict()), or as safetensors",
      error_name::kPickleRefused);
}

bool is_call_of(const PickleNode& node, std::string_view name) {
  return node.kind == PickleNode::Kind::call && node.items[0]->kind == PickleNode::Kind::global &&
         node.items[0]->text == name;
}

const PickleNode* attribute_of(const PickleNode& object, std::string_view name) {
  const PickleNode* state = object.kind == PickleNode::Kind::call ? object.state : nullptr;
  // An object with slots has a pair as its state: a dict or None, and the dict of its slots.
  if (state != nullptr && state->kind == PickleNode::Kind::tuple && state->items.size() == 2)
    state = state->items[1];
  if (state == nullptr || state->kind != PickleNode::Kind::dict) return nullptr;
  const PickleNode* found = nullptr;
  for (std::size_t i = 0; i + 1 < state->items.size(); i += 2)
    if (state->items[i]->kind == PickleNode::Kind::text && state->items[i]->text == name)
      found = state->items[i + 1];
  return found;
}

}  // namespace accelerate::detail
