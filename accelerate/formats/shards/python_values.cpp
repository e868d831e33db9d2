#include "accelerate/formats/shards/python_values.h"

#include <cstdint>
#include <limits>
#include <map>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/torch_archive/pickle_writer.h"

namespace accelerate::detail {
namespace {

using namespace pickling;

[[noreturn]] void refuse_value(const Node& node) {
  throw CheckpointError("its line " + std::to_string(node.line) +
                        " has a value that is no number, text, list or dict");
}

std::string scalar(const Node& node) {
  if (node.quoted) return text(node.text);
  if (node.text == "true" || node.text == "false") return boolean(node.text == "true");
  if (const auto whole = parse_int(node.text)) return integer(*whole);
  if (const auto number = parse_double(node.text)) return real(*number);
  refuse_value(node);
}

}  // namespace

std::string python_value(const Node& node, bool tuples) {
  if (node.is_null()) return none();
  if (node.is_scalar()) return scalar(node);
  if (node.is_sequence()) {
    std::string items;
    for (const auto& item : node.items) items += python_value(item, tuples);
    return tuples ? tuple(items) : list(items);
  }
  std::string entries;
  for (const auto& [key, line, item] : node.entries) {
    if (key == "$number") {
      const double infinity = std::numeric_limits<double>::infinity();
      if (item.text == "Infinity") return real(infinity);
      if (item.text == "-Infinity") return real(-infinity);
      return real(std::numeric_limits<double>::quiet_NaN());
    }
    if (key.starts_with('$')) refuse_value(node);
    entries += text(key) + python_value(item, tuples);
  }
  return dict(entries);
}

std::string python_schedule(const Node& node) {
  std::string entries;
  for (const auto& [key, line, item] : node.entries) {
    if (key == "milestones" && item.is_sequence()) {
      std::map<std::int64_t, std::int64_t> counts;
      for (const auto& step : item.items) ++counts[parse_int(step.text).value_or(0)];
      std::string pairs;
      for (const auto& [step, count] : counts) pairs += integer(step) + integer(count);
      entries += text(key) + call("collections.Counter", tuple(dict(pairs)));
    } else if (key == "_schedulers" && item.is_sequence()) {
      std::string inner;
      for (const auto& one : item.items) inner += python_schedule(one);
      entries += text(key) + list(inner);
    } else {
      entries += text(key) + python_value(item);
    }
  }
  const Node* rates = node.find("base_lrs");
  if (rates != nullptr && node.find("lr_lambdas") == nullptr) {
    std::string functions;
    for (std::size_t i = 0; i < rates->items.size(); ++i) functions += none();
    entries += text("lr_lambdas") + list(functions);
  }
  return dict(entries);
}

std::string python_scaler(const Node& node) {
  Node known = node;  // What only DeepSpeed's scaler has is left out.
  std::erase_if(known.entries, [](const NodeEntry& entry) {
    return entry.key.starts_with('_') && entry.key != "_growth_tracker";
  });
  return python_value(known);
}

std::string deepspeed_scaler(const Node& node) {
  const auto number = [&](const char* name, double fallback) {
    const Node* found = node.find(name);
    return found == nullptr ? fallback : parse_double(found->text).value_or(fallback);
  };
  const auto whole = [&](const char* name, double fallback) {
    return integer(static_cast<std::int64_t>(number(name, fallback)));
  };
  const auto flag = [&](const char* name, bool fallback) {
    const Node* found = node.find(name);
    return found == nullptr ? fallback : found->text == "true";
  };
  const bool is_dynamic = flag("_dynamic", true);
  std::string entries =
      text("cur_scale") + real(number("scale", 65536)) + text("dynamic") + boolean(is_dynamic);
  if (is_dynamic)
    entries +=
        text("cur_iter") + integer(static_cast<std::int64_t>(number("_growth_tracker", 0)) + 1) +
        text("last_overflow_iter") + integer(-1) + text("scale_factor") +
        real(number("growth_factor", 2)) + text("scale_window") + whole("growth_interval", 1000) +
        text("min_scale") + real(number("_min_scale", 1)) + text("delayed_shift") +
        whole("_hysteresis", 1) + text("cur_hysteresis") +
        whole("_hysteresis_tracker", number("_hysteresis", 1)) + text("consecutive_hysteresis") +
        boolean(flag("_consecutive_hysteresis", false)) + text("raise_error_at_min_scale") +
        boolean(true) + text("dtype") + global("torch.float16");
  const std::string kind = is_dynamic ? "DynamicLossScaler" : "LossScaler";
  return text("dynamic_loss_scale") + boolean(is_dynamic) + text("overflow") + boolean(false) +
         text("loss_scaler") + object("deepspeed.runtime.fp16.loss_scaler." + kind, dict(entries));
}

}  // namespace accelerate::detail
