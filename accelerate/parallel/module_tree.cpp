#include "accelerate/parallel/module_tree.h"

#include <algorithm>
#include <regex>
#include <unordered_map>
#include <unordered_set>

#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

using Places = std::unordered_map<std::string, std::size_t>;

void add_child(ModuleTree& tree, std::size_t parent, std::size_t child) {
  auto& siblings = tree.nodes[parent].children;
  const bool known = std::any_of(siblings.begin(), siblings.end(), [&](std::size_t sibling) {
    return tree.nodes[sibling].identity == tree.nodes[child].identity;
  });
  if (!known) siblings.push_back(child);
}

Places add_modules(const ModuleView& view, ModuleTree& tree) {
  Places places;
  for (const NamedModule& module : view.modules) {
    const std::size_t here = tree.nodes.size();
    places.emplace(module.name, here);
    tree.nodes.push_back(
        {.name = module.name, .word = class_word(module.class_name), .identity = module.identity});
    if (here == 0) continue;
    tree.nodes[here].parent = places.at(parent_name(module.name));
    add_child(tree, tree.nodes[here].parent, here);
  }
  return places;
}

void add_below(ModuleTree& tree, std::size_t node, std::size_t parameter) {
  for (;; node = tree.nodes[node].parent) {
    tree.nodes[node].parameters.push_back(parameter);
    if (node == 0) return;
  }
}

void add_parameters(const ModuleView& view, const Places& places, ModuleTree& tree) {
  std::unordered_map<const void*, std::size_t> index;
  for (const auto& [name, tensor] : view.parameters) {
    const auto [place, is_new] = index.emplace(tensor.unsafeGetTensorImpl(), index.size());
    if (is_new) {
      tree.owners.emplace_back();
      tree.numel.push_back(tensor.numel());
    }
    const std::size_t owner = places.at(parent_name(name));
    tree.owners[place->second].push_back(owner);
    add_below(tree, owner, place->second);
  }
  for (ModuleNode& node : tree.nodes) {
    std::sort(node.parameters.begin(), node.parameters.end());
    node.parameters.erase(std::unique(node.parameters.begin(), node.parameters.end()),
                          node.parameters.end());
  }
}

// Adds the modules that `expression` matches; the root has the empty name.
void add_matches(ModuleTree& tree, const std::string& expression,
                 std::unordered_set<const void*>& matched) {
  const std::regex compiled(expression);
  bool any = false;
  for (const ModuleNode& node : tree.nodes) {
    if (!std::regex_match(node.name, compiled)) continue;
    any = true;
    matched.insert(node.identity);
  }
  if (!any) tree.unmatched.push_back(expression);
}

// A shared module may lie below an ignored one under a later name only, hence the second sweep.
void ignore_all_below(ModuleTree& tree, std::unordered_set<const void*>& ignored) {
  for (int sweep = 0; sweep < 2; ++sweep) {
    for (ModuleNode& node : tree.nodes) {
      node.ignored = ignored.contains(node.identity) || tree.nodes[node.parent].ignored;
      if (node.ignored) ignored.insert(node.identity);
    }
  }
}

// "a::B<c::D>" → "a::B".
std::string_view without_template_arguments(std::string_view name) {
  if (!name.ends_with('>')) return name;
  int depth = 0;
  for (std::size_t i = name.size(); i-- > 0;) {
    if (name[i] == '>') ++depth;
    if (name[i] == '<' && --depth == 0) return name.substr(0, i);
  }
  return name;
}

}  // namespace

std::string class_word(std::string_view class_name) {
  std::string_view word = without_template_arguments(trim(class_name));
  const auto end_of_scope = word.find_last_of(":.");
  if (end_of_scope != std::string_view::npos) word.remove_prefix(end_of_scope + 1);
  constexpr std::string_view kImpl = "Impl";
  if (word.size() > kImpl.size() && word.ends_with(kImpl)) word.remove_suffix(kImpl.size());
  return std::string(word);
}

std::string parent_name(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

bool ModuleTree::is_ignored(std::size_t parameter) const {
  return std::any_of(owners[parameter].begin(), owners[parameter].end(),
                     [this](std::size_t owner) { return nodes[owner].ignored; });
}

std::int64_t ModuleTree::numel_below(const ModuleNode& node) const {
  std::int64_t sum = 0;
  for (const std::size_t parameter : node.parameters) {
    if (!is_ignored(parameter)) sum += numel[parameter];
  }
  return sum;
}

ModuleTree module_tree(const ModuleView& view, const std::vector<std::string>& ignored) {
  ModuleTree tree;
  const Places places = add_modules(view, tree);
  add_parameters(view, places, tree);
  std::unordered_set<const void*> matched;
  for (const auto& expression : ignored) add_matches(tree, expression, matched);
  if (!matched.empty()) ignore_all_below(tree, matched);
  return tree;
}

}  // namespace accelerate::detail
