#include "accelerate/transformers/trainer/arguments/argument_values.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/trainer/arguments/sections.h"

namespace accelerate::detail {

/// One number for all parameter groups, or a list with a number for each group.
template <>
struct KeyValue<PerGroup> {
  static constexpr const char* type = "number or list of numbers";
  static std::vector<std::string> choices(const KeyRules&) { return {}; }
  static std::string allowed(const KeyRules&) { return "a number, or a list of numbers"; }
  static std::optional<PerGroup> read(const Node& node, const KeyRules& rules) {
    if (!node.is_sequence()) {
      const auto value = KeyValue<double>::read(node, rules);
      return value ? std::optional<PerGroup>(*value) : std::nullopt;
    }
    std::vector<double> values;
    for (const Node& item : node.items) {
      const auto value = KeyValue<double>::read(item, rules);
      if (!value) return std::nullopt;
      values.push_back(*value);
    }
    return PerGroup(std::move(values));
  }
  static Node write(const PerGroup& value) {
    if (value.same_for_all()) return Node::real(value.values().front());
    Node list = Node::sequence();
    for (const double each : value.values()) list.items.push_back(Node::real(each));
    return list;
  }
};

/// The enumerations of schedules. Their words are in EnumTexts.
template <typename Choice>
  requires requires { EnumTexts<Choice>::kTexts; }
struct KeyValue<Choice> {
  static constexpr const char* type = "word";
  static std::vector<std::string> choices(const KeyRules&) {
    return {EnumTexts<Choice>::kTexts.begin(), EnumTexts<Choice>::kTexts.end()};
  }
  static std::string allowed(const KeyRules& rules) {
    return "one of " + join(choices(rules), ", ");
  }
  static std::optional<Choice> read(const Node& node, const KeyRules&) {
    const auto& texts = EnumTexts<Choice>::kTexts;
    const auto found = std::find(texts.begin(), texts.end(), lower(node.text));
    if (!node.is_scalar() || found == texts.end()) return std::nullopt;
    return static_cast<Choice>(found - texts.begin());
  }
  static Node write(Choice value) {
    return Node::string(std::string(EnumTexts<Choice>::kTexts.at(static_cast<std::size_t>(value))));
  }
};

namespace {

// clang-format off
const KeyTable<SchedulerSpecificOptions>& scheduler_kwargs_table() {
  using C = SchedulerSpecificOptions;
  static const KeyTable<C> kTable{"lr_scheduler_kwargs", "", {
    key("num_cycles", &C::num_cycles, "Waves, or restarts."),
    key("power", &C::power, "Exponent of the remaining share of steps."),
    key("lr_end", &C::lr_end, "The last rate."),
    key("min_lr", &C::min_lr, "The lowest rate."),
    key("min_lr_rate", &C::min_lr_rate, "The lowest rate as a fraction of the first."),
    key("warmup_lr_rate", &C::warmup_lr_rate, "The rate of step 0 as a fraction."),
    key("timescale", &C::timescale, "Of the inverse square root."),
    key("num_decay_steps", &C::num_decay_steps, "Steps in which the rate falls."),
    key("num_stable_steps", &C::num_stable_steps, "Steps in which the rate stays."),
    key("warmup_type", &C::warmup_type, "Shape of the rise."),
    key("decay_type", &C::decay_type, "Shape of the fall."),
    key("min_lr_ratio", &C::min_lr_ratio, "The lowest rate as a fraction."),
    key("mode", &C::mode, "Whether a small or a large metric is good."),
    key("factor", &C::factor, "By which the rate changes."),
    key("patience", &C::patience, "Evaluations without improvement."),
    key("threshold", &C::threshold, "What counts as an improvement."),
    key("threshold_mode", &C::threshold_mode, "How it is measured."),
    key("cooldown", &C::cooldown, "Evaluations after a change."),
    key("eps", &C::eps, "Smaller changes are left out."),
    key("warmup", &C::warmup, "Evaluations after a rise."),
    key("max_lr", &C::max_lr, "The greatest rate."),
    key("smooth", &C::smooth, "Whether the metric is averaged."),
    key("window_size", &C::window_size, "Length of that average."),
    key("reset_start", &C::reset_start, "Evaluations until it starts again."),
  }};
  return kTable;
}

const KeyTable<AcceleratorConfig>& accelerator_config_table() {
  using C = AcceleratorConfig;
  static const KeyTable<C> kTable{"accelerator_config", "", {
    key("split_batches", &C::split_batches, "A batch is of all ranks together."),
    key("dispatch_batches", &C::dispatch_batches, "Rank 0 reads for all."),
    key("even_batches", &C::even_batches, "Ranks get equally many batches."),
    key("use_seedable_sampler", &C::use_seedable_sampler, "Seed and epoch alone decide the order."),
    key("non_blocking", &C::non_blocking, "Batches move without waiting."),
  }};
  return kTable;
}
// clang-format on

bool is_off(const Node& node) {
  return node.is_null() || (node.is_map() && node.entries.empty()) ||
         (node.is_scalar() && parse_bool(node.text) == false);
}

// Checks and removes two keys that Python has and a Trainer here does not use.
void take_python_settings(Node& map, const std::string& name) {
  const auto refuse = [&](const char* key, const std::string& cure) {
    const Node* value = map.find(key);
    if (value == nullptr || is_off(*value)) return;
    fail_at(name, value->line,
            "'" + std::string(key) + "' is " + value->describe() +
                ", which this library does not support. " + cure);
  };
  refuse("gradient_accumulation_kwargs",
         "Leave it out: gradient_accumulation_steps of the arguments says how many batches a step "
         "has, and the last step of an epoch counts its own");
  refuse("use_configured_state",
         "Leave it out: a Trainer shares the group of ranks with every Accelerator of the process");
  std::erase_if(map.entries, [](const NodeEntry& entry) {
    return entry.key == "gradient_accumulation_kwargs" || entry.key == "use_configured_state";
  });
}

bool begins_map(const std::string& text) {
  return trim(text).starts_with("{");
}

}  // namespace

Node unfold_map(const Node& node, const std::string& name) {
  return node.is_scalar() && begins_map(node.text) ? read_json(trim(node.text), name) : node;
}

std::string KeyValue<Words>::allowed(const KeyRules& rules) {
  return rules.choices.empty() ? "a list of texts" : "a list of " + join(rules.choices, ", ");
}

std::optional<Words> KeyValue<Words>::read(const Node& node, const KeyRules& rules) {
  auto texts = KeyValue<std::vector<std::string>>::read(node, rules);
  if (!texts) return std::nullopt;
  for (const auto& text : *texts) {
    if (!is_choice(text, rules.choices)) return std::nullopt;
  }
  return Words(std::move(*texts));
}

const std::vector<std::string>& KeyValue<FsdpOption>::fsdp_words() {
  static const std::vector<std::string> kWords = {
      "full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2",
      "no_shard",   "offload",       "auto_wrap"};
  return kWords;
}

std::string KeyValue<FsdpOption>::allowed(const KeyRules&) {
  return "true, false, or words of " + join(fsdp_words(), ", ");
}

std::optional<FsdpOption> KeyValue<FsdpOption>::read(const Node& node, const KeyRules& rules) {
  const auto texts = KeyValue<std::vector<std::string>>::read(node, rules);
  if (!texts) return std::nullopt;
  FsdpOption option(*texts);
  for (const auto& word : option.words()) {
    const auto& known = fsdp_words();
    if (word != "true" && std::ranges::find(known, word) == known.end()) return std::nullopt;
  }
  return option;
}

Node KeyValue<FsdpOption>::write(const FsdpOption& value) {
  if (value.words() == std::vector<std::string>{"true"}) return Node::boolean(true);
  return value.empty() ? Node::null() : Node::string(join(value.words(), " "));
}

std::string KeyValue<FsdpConfigOption>::allowed(const KeyRules&) {
  return "the path of a file, or a map with keys such as 'reshard_after_forward'";
}

std::optional<FsdpConfigOption> KeyValue<FsdpConfigOption>::read(const Node& node,
                                                                 const KeyRules&) {
  const Node value = unfold_map(node, "fsdp_config");
  if (value.is_map()) return fsdp_plugin_of(value, "fsdp_config");
  if (!value.is_scalar() || value.text.empty()) return std::nullopt;
  return std::filesystem::path(value.text);
}

Node KeyValue<FsdpConfigOption>::write(const FsdpConfigOption& option) {
  const auto& value = option.value();
  if (const auto* path = std::get_if<std::filesystem::path>(&value))
    return Node::string(path->string());
  if (const auto* plugin = std::get_if<FullyShardedDataParallelPlugin>(&value))
    return write_keys(*plugin, fsdp_table());
  return Node::null();
}

std::string KeyValue<AcceleratorConfig>::allowed(const KeyRules&) {
  return "the path of a file, or a map with keys such as 'split_batches'";
}

std::optional<AcceleratorConfig> KeyValue<AcceleratorConfig>::read(const Node& node,
                                                                   const KeyRules&) {
  Node value = unfold_map(node, "accelerator_config");
  std::string name = "accelerator_config";
  if (value.is_scalar() && !value.text.empty()) {
    name = value.text;
    value = read_settings_file(name, "the file of accelerator_config");
  }
  if (!value.is_map()) return std::nullopt;
  take_python_settings(value, name);
  AcceleratorConfig config;
  read_keys(config, value, accelerator_config_table(), name);
  return config;
}

Node KeyValue<AcceleratorConfig>::write(const AcceleratorConfig& value) {
  Node map = write_keys(value, accelerator_config_table());
  if (!value.dispatch_batches) map.entries.push_back({"dispatch_batches", 0, Node::null()});
  map.entries.push_back({"gradient_accumulation_kwargs", 0, Node::null()});
  return map;
}

std::optional<ResumeOption> KeyValue<ResumeOption>::read(const Node& node, const KeyRules&) {
  if (!node.is_scalar() || node.text.empty()) return std::nullopt;
  return ResumeOption(std::filesystem::path(node.text));
}

Node KeyValue<ResumeOption>::write(const ResumeOption& value) {
  if (value.may_begin_anew()) return Node::string("last");
  if (value.newest()) return Node::boolean(true);
  return value.folder().empty() ? Node::null() : Node::string(value.folder().string());
}

std::string KeyValue<SchedulerSpecificOptions>::allowed(const KeyRules&) {
  return "a map with keys such as 'num_cycles'";
}

std::optional<SchedulerSpecificOptions> KeyValue<SchedulerSpecificOptions>::read(const Node& node,
                                                                                 const KeyRules&) {
  const Node value = unfold_map(node, "lr_scheduler_kwargs");
  if (!value.is_map()) return std::nullopt;
  SchedulerSpecificOptions kwargs;
  read_keys(kwargs, value, scheduler_kwargs_table(), "lr_scheduler_kwargs");
  return kwargs;
}

Node KeyValue<SchedulerSpecificOptions>::write(const SchedulerSpecificOptions& value) {
  Node map = write_keys(value, scheduler_kwargs_table());
  return map.entries.empty() ? Node::null() : map;
}

}  // namespace accelerate::detail
