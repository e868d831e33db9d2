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
  Node known = node;
  std::erase_if(known.entries,
                [](const NodeEntry& entry) { return entry.key == "_hysteresis_tracker"; });
  return python_value(known);
}

}  // namespace accelerate::detail
