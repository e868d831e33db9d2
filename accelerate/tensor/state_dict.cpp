#include "accelerate/tensor/state_dict.h"

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

std::string in_quotes(std::string_view text) {
  return "'" + std::string(text) + "'";
}

std::string shape_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "an undefined tensor";
  std::string text = "a tensor [";
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(tensor.size(i));
  return text + "]";
}

std::string keys_of(const StateDict::Dict& dict) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; const auto& [key, value] : dict) {
    if (i++ == kShown) return text + ", …";
    text += (i > 1 ? ", " : "") + in_quotes(key);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

StateDict::StateDict(std::initializer_list<std::pair<std::string, StateDict>> entries)
    : value_(Dict()) {
  for (const auto& [key, value] : entries) std::get<Dict>(value_)[key] = value;
}

const StateDict* StateDict::find(std::string_view key) const {
  const auto& entries = dict();
  const auto entry = entries.find(key);
  return entry == entries.end() ? nullptr : &entry->second;
}

const StateDict& StateDict::at(std::string_view key) const {
  if (const auto* value = find(key)) return *value;
  throw CheckpointError("the state has no " + in_quotes(key) + "; it has " + keys_of(dict()));
}

StateDict& StateDict::operator[](const std::string& key) {
  if (is_null()) value_ = Dict();
  if (!holds<Dict>()) refuse("a dictionary");
  return std::get<Dict>(value_)[key];
}

const StateDict::List& StateDict::list() const {
  if (const auto* value = std::get_if<List>(&value_)) return *value;
  refuse("a list");
}

const StateDict::Dict& StateDict::dict() const {
  if (const auto* value = std::get_if<Dict>(&value_)) return *value;
  refuse("a dictionary");
}

std::string StateDict::describe() const {
  struct Describe {
    std::string operator()(std::monostate) const { return "nothing"; }
    std::string operator()(bool value) const { return value ? "true" : "false"; }
    std::string operator()(std::int64_t value) const { return std::to_string(value); }
    std::string operator()(double value) const { return std::to_string(value); }
    std::string operator()(const std::string& value) const { return "the text " + in_quotes(value); }
    std::string operator()(const at::Tensor& value) const { return shape_of(value); }
    std::string operator()(const List& value) const {
      return "a list of " + std::to_string(value.size());
    }
    std::string operator()(const Dict& value) const { return "a dictionary of " + keys_of(value); }
  };
  return std::visit(Describe{}, value_);
}

void StateDict::refuse(std::string_view expected) const {
  throw CheckpointError("a state holds " + describe() + " where " + std::string(expected) +
                        " belongs");
}

std::int64_t StateDict::integer(std::int64_t lowest, std::int64_t highest) const {
  const auto* value = std::get_if<std::int64_t>(&value_);
  if (value != nullptr && lowest <= *value && *value <= highest) return *value;
  refuse("an integer from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

double StateDict::real() const {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (const auto* value = std::get_if<std::int64_t>(&value_);
      value != nullptr && -kExact <= *value && *value <= kExact)
    return static_cast<double>(*value);
  refuse("a number");
}

}  // namespace accelerate
