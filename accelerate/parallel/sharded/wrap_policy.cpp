#include "accelerate/parallel/sharded/wrap_policy.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/parallel/module_tree.h"
#include "accelerate/tensor/divisible_module.h"

namespace accelerate::detail {
namespace {

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_batch_norm(const ModuleNode& node) {
  return is_one_of(node.word, {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"});
}

bool is_mixed(const ResolvedFsdpOptions& settings) {
  return settings.param_dtype || settings.reduce_dtype || settings.buffer_dtype;
}

// Returns the policy that the settings amount to. SIZE_BASED_WRAP without a size is not a policy,
// as in the original.
AutoWrapPolicy policy_of(const ResolvedFsdpOptions& settings) {
  const bool sized = settings.auto_wrap_policy == AutoWrapPolicy::SIZE_BASED_WRAP;
  return sized && settings.min_num_params == 0 ? AutoWrapPolicy::NO_WRAP
                                               : settings.auto_wrap_policy;
}

// --- By class ------------------------------------------------------------------------------------

std::vector<std::string> words_of(const ModuleTree& tree) {
  std::vector<std::string> words;
  for (const ModuleNode& node : tree.nodes) {
    if (std::find(words.begin(), words.end(), node.word) == words.end()) words.push_back(node.word);
  }
  return words;
}

// Returns the classes to wrap: those that the configuration names, else those that the model names.
std::unordered_set<std::string> wrapped_classes(const ModuleTree& tree,
                                                const std::vector<std::string>& configured,
                                                const std::vector<std::string>& of_model) {
  const auto words = words_of(tree);
  const auto& names = configured.empty() ? of_model : configured;
  if (names.empty()) {
    get_logger("accelerate.fsdp")
        .warning(
            "auto_wrap_policy is TRANSFORMER_BASED_WRAP, and neither the configuration nor the "
            "model names a class: the model is gathered as a whole. To gather less at a time set "
            "transformer_cls_names_to_wrap (fsdp_transformer_layer_cls_to_wrap in a configuration "
            "file) to some of its classes: " +
            join(words, ", "));
  }
  std::unordered_set<std::string> classes;
  for (const auto& name : names) {
    const std::string word = class_word(name);
    if (std::find(words.begin(), words.end(), word) == words.end()) {
      throw ConfigError("Could not find the transformer layer class " + name +
                        " in the model. Its classes are " + join(words, ", ") +
                        " (without namespace and Impl)." + did_you_mean(word, words));
    }
    classes.insert(word);
  }
  return classes;
}

// --- Version 1: from the top down, and chosen on the way back ------------------------------------

class FirstVersion {
 public:
  FirstVersion(const ModuleTree& tree, const ResolvedFsdpOptions& settings,
               const std::vector<std::string>& of_model)
      : tree_(tree),
        policy_(policy_of(settings)),
        least_(settings.min_num_params),
        mixed_(is_mixed(settings)) {
    if (policy_ == AutoWrapPolicy::TRANSFORMER_BASED_WRAP) {
      classes_ = wrapped_classes(tree, settings.transformer_cls_names_to_wrap, of_model);
    }
  }

  std::unordered_set<const void*> chosen() {
    if (policy_ != AutoWrapPolicy::NO_WRAP) (void)visit(tree_.nodes.front());
    return std::move(chosen_);
  }

 private:
  // Returns how many elements of `node` are in units afterwards. Never chooses the root.
  std::int64_t visit(const ModuleNode& node) {
    const std::int64_t all = tree_.numel_below(node);
    if (!goes_into(node, all)) return 0;
    std::int64_t in_units = 0;
    for (const std::size_t child : node.children) in_units += visit(tree_.nodes[child]);
    if (&node == &tree_.nodes.front() || !chooses(node, all - in_units)) return in_units;
    chosen_.insert(node.identity);
    return all;
  }

  // Under mixed precision batch norms are looked for everywhere, also where size alone would not
  // lead.
  [[nodiscard]] bool goes_into(const ModuleNode& node, std::int64_t numel) const {
    if (policy_ == AutoWrapPolicy::TRANSFORMER_BASED_WRAP || mixed_) return true;
    return numel >= least_ && node.word != "MultiheadAttention";
  }

  [[nodiscard]] bool chooses(const ModuleNode& node, std::int64_t remainder) const {
    if (mixed_ && is_batch_norm(node)) return true;
    if (policy_ == AutoWrapPolicy::TRANSFORMER_BASED_WRAP) return classes_.contains(node.word);
    return remainder >= least_ && !is_one_of(node.word, {"ModuleList", "ModuleDict"});
  }

  const ModuleTree& tree_;
  AutoWrapPolicy policy_;
  std::int64_t least_;
  bool mixed_;
  std::unordered_set<std::string> classes_;
  std::unordered_set<const void*> chosen_;
};

// --- Version 2: every module by itself -----------------------------------------------------------

std::int64_t numel_of(const ModuleTree& tree, const ModuleNode& node) {
  std::int64_t sum = 0;
  for (const std::size_t parameter : node.parameters) sum += tree.numel[parameter];
  return sum;
}

// Returns the chosen modules around `node`, the nearest first.
std::vector<const void*> units_around(const ModuleTree& tree, std::size_t node,
                                      const std::unordered_set<const void*>& chosen) {
  std::vector<const void*> around;
  for (; node != 0; node = tree.nodes[node].parent) {
    if (chosen.contains(tree.nodes[node].identity)) around.push_back(tree.nodes[node].identity);
  }
  return around;
}

// The input embedding is the largest part of many models, and unused for most of a step. An
// embedding that is tied to the head stays in the root unit, because both names must be in one
// unit.
void choose_input_embedding(const ModuleTree& tree, std::unordered_set<const void*>& chosen) {
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    if (tree.nodes[i].word != "Embedding") continue;
    if (units_around(tree, i, chosen).empty()) chosen.insert(tree.nodes[i].identity);
    return;
  }
}

std::unordered_set<const void*> chosen_by_second_version(const ModuleTree& tree,
                                                         const ResolvedFsdpOptions& settings,
                                                         const std::vector<std::string>& of_model) {
  std::unordered_set<const void*> chosen;
  std::unordered_set<std::string> classes;
  const AutoWrapPolicy policy = policy_of(settings);
  if (policy == AutoWrapPolicy::TRANSFORMER_BASED_WRAP) {
    classes = wrapped_classes(tree, settings.transformer_cls_names_to_wrap, of_model);
  }
  for (std::size_t i = 1; i < tree.nodes.size(); ++i) {
    const ModuleNode& node = tree.nodes[i];
    const bool large =
        policy == AutoWrapPolicy::SIZE_BASED_WRAP && numel_of(tree, node) > settings.min_num_params;
    if (large || classes.contains(node.word)) chosen.insert(node.identity);
  }
  choose_input_embedding(tree, chosen);
  return chosen;
}

// --- Parameters to units -------------------------------------------------------------------------

// Returns the deepest chosen module around all owners; the root's identity if there is none.
const void* unit_of(const ModuleTree& tree, const std::vector<std::size_t>& owners,
                    const std::unordered_set<const void*>& chosen) {
  auto candidates = units_around(tree, owners.front(), chosen);
  for (const std::size_t owner : owners) {
    const auto around = units_around(tree, owner, chosen);
    std::erase_if(candidates, [&](const void* candidate) {
      return std::find(around.begin(), around.end(), candidate) == around.end();
    });
  }
  return candidates.empty() ? tree.nodes.front().identity : candidates.front();
}

std::vector<UnitPlan> units_of(const ModuleTree& tree,
                               const std::unordered_set<const void*>& chosen) {
  std::unordered_map<const void*, std::vector<std::size_t>> parameters;
  for (std::size_t i = 0; i < tree.owners.size(); ++i) {
    if (!tree.is_ignored(i)) parameters[unit_of(tree, tree.owners[i], chosen)].push_back(i);
  }
  std::vector<UnitPlan> units;
  for (const ModuleNode& node : tree.nodes) {
    auto own = parameters.extract(node.identity);  // under a module's first name only
    if (own.empty()) continue;
    units.push_back({.name = node.name, .parameters = std::move(own.mapped())});
  }
  return units;
}

void choose_batch_norms(const ModuleTree& tree, std::unordered_set<const void*>& chosen) {
  for (const ModuleNode& node : tree.nodes) {
    if (is_batch_norm(node)) chosen.insert(node.identity);
  }
}

void keep_batch_norms(const ModuleTree& tree, std::vector<UnitPlan>& units) {
  for (UnitPlan& unit : units) {
    const auto node = std::find_if(tree.nodes.begin(), tree.nodes.end(),
                                   [&](const ModuleNode& one) { return one.name == unit.name; });
    unit.full_precision = is_batch_norm(*node);
  }
}

void warn_of_unmatched(const ModuleTree& tree) {
  for (const auto& expression : tree.unmatched) {
    get_logger("accelerate.fsdp")
        .warning("ignored_modules has '" + expression +
                 "', which matches the whole name of no module of this model.");
  }
}

}  // namespace

std::vector<UnitPlan> plan_units(const ModuleView& view, const ResolvedFsdpOptions& settings) {
  const ModuleTree tree = module_tree(view, settings.ignored_modules);
  warn_of_unmatched(tree);
  const auto of_model =
      view.divisible ? view.divisible->no_split_modules() : std::vector<std::string>{};
  auto chosen = settings.version == 2 ? chosen_by_second_version(tree, settings, of_model)
                                      : FirstVersion(tree, settings, of_model).chosen();
  if (is_mixed(settings)) choose_batch_norms(tree, chosen);
  auto units = units_of(tree, chosen);
  if (is_mixed(settings)) keep_batch_norms(tree, units);
  return units;
}

std::vector<at::Tensor> buffers_to_cast(const ModuleView& view,
                                        const ResolvedFsdpOptions& settings) {
  const ModuleTree tree = module_tree(view, settings.ignored_modules);
  std::unordered_map<std::string, const ModuleNode*> modules;
  for (const ModuleNode& node : tree.nodes) modules.emplace(node.name, &node);
  std::unordered_set<const void*> kept;
  for (const auto& [name, buffer] : view.buffers) {
    const ModuleNode& owner = *modules.at(parent_name(name));
    if (owner.ignored || is_batch_norm(owner)) kept.insert(buffer.unsafeGetTensorImpl());
  }
  std::vector<at::Tensor> found;
  for (const auto& [name, buffer] : without_duplicates(view.buffers)) {
    const bool wanted = buffer.is_floating_point() && !kept.contains(buffer.unsafeGetTensorImpl());
    if (wanted) found.push_back(buffer);
  }
  return found;
}

}  // namespace accelerate::detail
