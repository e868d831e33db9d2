// A model's modules as a tree with the parameters of each, which wrap policies walk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// A module under one of its names.
struct ModuleNode {
  std::string name;
  std::string word;                     ///< class_word of its class.
  const void* identity = nullptr;       ///< Equal under all names of a module.
  std::size_t parent = 0;               ///< Of the root: itself.
  std::vector<std::size_t> children{};  ///< In registration order, each module once.
  /// Of it and all below, ascending indices into without_duplicates(view.parameters), each once.
  std::vector<std::size_t> parameters{};
  bool ignored = false;
};

struct ModuleTree {
  std::vector<ModuleNode> nodes;  ///< The root first, then as in ModuleView.
  /// Of each parameter, once for each of its names: the node that registered it.
  std::vector<std::vector<std::size_t>> owners;
  std::vector<std::int64_t> numel;     ///< Of each parameter.
  std::vector<std::string> unmatched;  ///< Expressions of `ignored` that match no module.

  [[nodiscard]] bool is_ignored(std::size_t parameter) const;
  /// Elements below `node` that are not ignored.
  [[nodiscard]] std::int64_t numel_below(const ModuleNode& node) const;
};

/// "a.b.c" → "a.b", "a" → "": the module of a parameter, the parent of a module.
[[nodiscard]] std::string parent_name(const std::string& name);

/// `ignored`: expressions of which one matches the whole name of each module to ignore, together
/// with all below it and under its other names.
[[nodiscard]] ModuleTree module_tree(const ModuleView& view,
                                     const std::vector<std::string>& ignored);

}  // namespace accelerate::detail
