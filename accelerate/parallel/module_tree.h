// A model's modules as a tree, with the parameters of each module. Wrap policies walk it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/tensor/module_view.h"

namespace accelerate::detail {

/// A module under one of its names.
struct ModuleNode {
  std::string name;
  std::string word;                     ///< class_word of its class.
  const void* identity = nullptr;       ///< Equal under all names of a module.
  std::size_t parent = 0;               ///< Its index; the root's is the root.
  std::vector<std::size_t> children{};  ///< In registration order, each module once.
  /// The parameters of this module and of all modules below: ascending indices into
  /// without_duplicates(view.parameters), each once.
  std::vector<std::size_t> parameters{};
  bool ignored = false;
};

struct ModuleTree {
  std::vector<ModuleNode> nodes;  ///< The root first, then as in ModuleView.
  /// For each parameter, the nodes that registered it, one for each of its names.
  std::vector<std::vector<std::size_t>> owners;
  std::vector<std::int64_t> numel;     ///< Elements of each parameter.
  std::vector<std::string> unmatched;  ///< Expressions of `ignored` that match no module.

  [[nodiscard]] bool is_ignored(std::size_t parameter) const;
  /// The number of elements of `node` and below that are not ignored.
  [[nodiscard]] std::int64_t numel_below(const ModuleNode& node) const;
};

/// Returns the name by which a configuration calls a class: without namespaces, template arguments
/// and a trailing "Impl". "my::BlockImpl" → "Block"; TorchScript's
/// "__torch__.nets.___torch_mangle_3.Block" → "Block".
[[nodiscard]] std::string class_word(std::string_view class_name);

/// Returns the module of a parameter, or the parent of a module: "a.b.c" → "a.b", "a" → "".
[[nodiscard]] std::string parent_name(const std::string& name);

/// Builds the tree of `view`. A module is ignored when an expression in `ignored` matches its whole
/// name; so is everything below it, under all its names.
[[nodiscard]] ModuleTree module_tree(const ModuleView& view,
                                     const std::vector<std::string>& ignored);

}  // namespace accelerate::detail
