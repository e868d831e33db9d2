#include "accelerate/parallel/recompute/recomputed_units.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/parallel/module_tree.h"
#include "accelerate/parallel/sharded/wrap_policy.h"
#include "accelerate/tensor/divisible_module.h"

namespace accelerate::detail {
namespace {

using Chosen = std::set<std::size_t>;  // Places in ModuleTree::nodes.

// Whether `pattern`, in which '*' stands for any text without a dot, matches the name of a module.
bool matches_name(std::string pattern, std::string name) {
  std::ranges::replace(pattern, '.', '/');
  std::ranges::replace(name, '.', '/');
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME | FNM_NOESCAPE) == 0;
}

Chosen matches_of(const ModuleTree& tree, const std::string& text) {
  Chosen found;
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    const ModuleNode& node = tree.nodes[i];
    if (node.word == class_word(text) || matches_name(text, node.name)) found.insert(i);
  }
  return found;
}

std::vector<std::string> classes_of(const ModuleTree& tree) {
  std::set<std::string> words;
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) words.insert(tree.nodes[i].word);
  return {words.begin(), words.end()};
}

Chosen chosen_by(const std::vector<std::string>& texts, const ModuleTree& tree,
                 const std::string& model) {
  Chosen chosen;
  for (const auto& text : texts) {
    Chosen found = matches_of(tree, text);
    if (found.empty()) {
      const auto classes = classes_of(tree);
      throw ConfigError("gradient checkpointing: units has '" + text +
                        "', which is neither a class nor the name of a module in " + model +
                        ". Its classes are " + join(classes, ", ") +
                        " (without namespace and Impl)." + did_you_mean(class_word(text), classes));
    }
    chosen.merge(found);
  }
  return chosen;
}

Chosen units_of_sharding(const ModuleView& view, const ModuleTree& tree,
                         const ResolvedFsdpOptions& sharding) {
  std::set<std::string> names;
  for (const auto& unit : plan_units(view, sharding)) names.insert(unit.name);
  Chosen chosen;
  for (std::size_t i = 1; i < tree.nodes.size(); ++i)
    if (names.contains(tree.nodes[i].name)) chosen.insert(i);
  return chosen;
}

bool is_container(const ModuleNode& node) {
  return node.word == "Sequential" || node.word == "ModuleList" || node.word == "ModuleDict";
}

// Adds the topmost modules below `node` that have modules of their own and a sibling of their class.
void choose_blocks(const ModuleTree& tree, std::size_t node, bool containers_too, Chosen& chosen) {
  std::map<std::string, Chosen> by_class;
  for (const std::size_t child : tree.nodes[node].children) {
    const ModuleNode& module = tree.nodes[child];
    if (!module.children.empty() && (containers_too || !is_container(module)))
      by_class[module.word].insert(child);
  }
  for (const std::size_t child : tree.nodes[node].children) {
    const auto alike = by_class.find(tree.nodes[child].word);
    if (alike != by_class.end() && alike->second.size() > 1 && alike->second.contains(child)) {
      chosen.insert(child);
    } else {
      choose_blocks(tree, child, containers_too, chosen);
    }
  }
}

Chosen blocks_of(const ModuleTree& tree) {
  Chosen chosen;
  choose_blocks(tree, 0, /*containers_too=*/false, chosen);
  if (chosen.empty()) choose_blocks(tree, 0, /*containers_too=*/true, chosen);
  return chosen;
}

Chosen choose(const ModuleView& view, const ModuleTree& tree, const GradientCheckpointing& options,
              const std::optional<ResolvedFsdpOptions>& sharding) {
  if (!options.units.empty()) return chosen_by(options.units, tree, view.class_name);
  Chosen chosen;
  if (sharding && sharding->auto_wrap_policy != AutoWrapPolicy::NO_WRAP)
    chosen = units_of_sharding(view, tree, *sharding);
  if (chosen.empty() && view.divisible != nullptr) {
    for (const auto& name : view.divisible->no_split_modules())
      chosen.merge(matches_of(tree, name));
  }
  return chosen.empty() ? blocks_of(tree) : chosen;
}

// A module that was registered more than once counts under its first name.
void leave_out_empty_and_repeated(const ModuleTree& tree, Chosen& chosen) {
  std::set<const void*> seen;
  std::erase_if(chosen, [&](std::size_t place) {
    return tree.nodes[place].parameters.empty() || !seen.insert(tree.nodes[place].identity).second;
  });
}

// Returns the unit of what the module at `node` has itself; 0 outside of all chosen ones.
std::size_t unit_around(const ModuleTree& tree, std::size_t node,
                        const std::map<const void*, std::size_t>& units) {
  for (;; node = tree.nodes[node].parent) {
    if (const auto found = units.find(tree.nodes[node].identity); found != units.end())
      return found->second;
    if (node == 0) return 0;
  }
}

void assign(const std::vector<NamedTensor>& tensors, const ModuleTree& tree,
            const std::map<const void*, std::size_t>& units, RecomputePlan& plan) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < tree.nodes.size(); ++i) places.emplace(tree.nodes[i].name, i);
  for (const auto& [name, tensor] : tensors) {
    const std::size_t unit = unit_around(tree, places.at(parent_name(name)), units);
    plan.unit_of.try_emplace(tensor.unsafeGetTensorImpl(), unit);
  }
}

void count_parameters(const ModuleView& view, RecomputePlan& plan) {
  for (const auto& tensor : tensors_of(view.parameters)) {
    plan.parameters.insert(tensor.unsafeGetTensorImpl());
    ++plan.units[plan.unit_of.at(tensor.unsafeGetTensorImpl())].parameters;
  }
}

}  // namespace

RecomputePlan plan_recompute(const ModuleView& view, const GradientCheckpointing& options,
                             const std::optional<ResolvedFsdpOptions>& sharding) {
  if (options.every < 1) {
    throw ConfigError("gradient checkpointing: every is " + std::to_string(options.every) +
                      "; allowed is 1 (every unit) or more");
  }
  const ModuleTree tree = module_tree(view, {});
  Chosen chosen = choose(view, tree, options, sharding);
  leave_out_empty_and_repeated(tree, chosen);
  if (chosen.empty()) {
    throw ConfigError("gradient checkpointing finds no modules to compute again in " +
                      view.class_name + ". Name some in units; its classes are " +
                      join(classes_of(tree), ", ") + " (without namespace and Impl)");
  }
  RecomputePlan plan{.units = {{.name = ""}}, .keep = options.keep};
  if (options.offload) plan.offloads_from = c10::DeviceType::CUDA;
  std::map<const void*, std::size_t> units;
  for (const std::size_t place : chosen) {
    const auto number = static_cast<std::int64_t>(units.size());
    units.emplace(tree.nodes[place].identity, plan.units.size());
    plan.units.push_back(
        {.name = tree.nodes[place].name, .is_recomputed = number % options.every == 0});
  }
  assign(view.parameters, tree, units, plan);
  assign(view.buffers, tree, units, plan);
  count_parameters(view, plan);
  return plan;
}

}  // namespace accelerate::detail
