#include "accelerate/watch/trackers/values.h"

#include <ATen/core/Tensor.h>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/json.h"

namespace accelerate {
namespace {

template <typename... Fn>
struct Overloaded : Fn... {
  using Fn::operator()...;
};

TrackerValue::variant number_of(const at::Tensor& value) {
  if (!value.defined() || value.numel() != 1) {
    const std::string found =
        value.defined() ? "of " + std::to_string(value.numel()) + " elements" : "that is undefined";
    throw UsageError("a tracker was given a tensor " + found +
                     " as a value; allowed is one of one element. Log its mean(), or "
                     "Histogram{tensor} for the distribution.");
  }
  if (value.is_meta() || value.is_complex()) {
    throw UsageError(std::string("a tracker was given a ") +
                     (value.is_meta() ? "meta tensor, which has no data," : "complex tensor") +
                     " as a value; allowed is a real number");
  }
  const c10::Scalar number = value.item();
  if (number.isFloatingPoint() || value.scalar_type() == at::kUInt64) return number.toDouble();
  return number.toLong();
}

void check_histogram(const Histogram& histogram, const std::string& name) {
  const at::Tensor& values = histogram.values;
  if (!values.defined() || !(values.is_meta() || values.is_complex())) return;
  throw UsageError("the histogram '" + name + "' is of a " +
                   (values.is_meta() ? "meta tensor, which has no data" : "complex tensor") +
                   "; allowed are tensors of real numbers");
}

void check_text(std::string_view text, const std::string& name) {
  if (is_utf8(text)) return;
  throw UsageError("the text logged as '" + name + "' is not UTF-8, which trackers need");
}

void flatten_into(std::vector<detail::FlatSetting>& out, const std::string& name,
                  const ConfigValue& value) {
  if (const auto* entries = std::get_if<ConfigMap>(&value.data())) {
    for (const auto& [key, inner] : *entries) flatten_into(out, name + "." + key, inner);
    return;
  }
  std::visit(
      Overloaded{[&](const ConfigValue::List&) {
                   std::string json = write_json(detail::to_node(value));
                   std::erase(json, '\n');
                   out.push_back({name, std::move(json)});
                 },
                 [](const ConfigMap&) {}, [&](const auto& plain) { out.push_back({name, plain}); }},
      value.data());
}

void check_setting(const std::string& name, const ConfigValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.data())) check_text(*text, name);
  if (const auto* entries = std::get_if<ConfigMap>(&value.data())) detail::check_config(*entries);
  if (const auto* items = std::get_if<ConfigValue::List>(&value.data())) {
    for (const ConfigValue& item : *items) check_setting(name, item);
  }
}

}  // namespace

TrackerValue::TrackerValue(const at::Tensor& value) : variant(number_of(value)) {}

namespace detail {

std::vector<FlatSetting> flatten(const ConfigMap& config) {
  std::vector<FlatSetting> settings;
  for (const auto& [name, value] : config) flatten_into(settings, name, value);
  return settings;
}

Node to_node(const ConfigValue& value) {
  return std::visit(Overloaded{[](std::monostate) { return Node::null(); },
                               [](bool plain) { return Node::boolean(plain); },
                               [](std::int64_t plain) { return Node::integer(plain); },
                               [](double plain) { return Node::real(plain); },
                               [](const std::string& plain) { return Node::string(plain); },
                               [](const ConfigValue::List& items) {
                                 Node list = Node::sequence();
                                 for (const ConfigValue& item : items)
                                   list.items.push_back(to_node(item));
                                 return list;
                               },
                               [](const ConfigMap& entries) {
                                 Node map = Node::map();
                                 for (const auto& [key, inner] : entries) {
                                   map.entries.push_back({key, 0, to_node(inner)});
                                 }
                                 return map;
                               }},
                    value.data());
}

std::string shortest_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

std::string setting_text(const FlatSetting& setting) {
  return std::visit(Overloaded{[](std::monostate) { return std::string("None"); },
                               [](bool value) { return std::string(value ? "True" : "False"); },
                               [](std::int64_t value) { return std::to_string(value); },
                               [](double value) { return shortest_number(value); },
                               [](const std::string& value) { return value; }},
                    setting.value);
}

void check_names(const std::vector<std::string>& names, std::string_view what) {
  std::set<std::string_view> seen;
  for (const std::string& name : names) {
    if (name.empty() || !is_utf8(name)) {
      throw UsageError("a tracker was given a " + std::string(what) + " whose name is " +
                       (name.empty() ? "empty" : "not UTF-8") +
                       "; every one needs a readable name");
    }
    if (!seen.insert(name).second) {
      throw UsageError("a tracker was given two " + std::string(what) + "s called '" + name +
                       "' in one call; each name may come once");
    }
  }
}

namespace {

void check_value(const TrackerValue& value, const std::string& name) {
  const auto& data = value.as_variant();
  if (const auto* text = std::get_if<std::string>(&data)) check_text(*text, name);
  if (const auto* histogram = std::get_if<Histogram>(&data)) check_histogram(*histogram, name);
  if (const auto* several = std::get_if<Scalars>(&data)) {
    std::vector<std::string> parts;
    for (const auto& one : *several) parts.push_back(one.first);
    check_names(parts, "value");
  }
}

}  // namespace

void check_values(const TrackerValues& values) {
  std::vector<std::string> names;
  for (const auto& [name, value] : values) {
    names.push_back(name);
    check_value(value, name);
  }
  check_names(names, "value");
}

void check_config(const ConfigMap& config) {
  std::vector<std::string> names;
  for (const auto& [name, value] : config) {
    names.push_back(name);
    check_setting(name, value);
  }
  check_names(names, "setting");
}

}  // namespace detail
}  // namespace accelerate

namespace accelerate::detail {
namespace {

std::string scalars_text(const Scalars& values) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += (text.empty() ? "" : ", ") + name + ": " + shortest_number(value);
  }
  return text;
}

std::string histogram_text(const Histogram& histogram) {
  const auto summary = summarize(histogram.values);
  if (!summary) return "no finite element";
  return "min " + shortest_number(summary->min) + ", mean " +
         shortest_number(summary->sum / summary->num) + ", max " + shortest_number(summary->max);
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '|') out += '\\';
    out += c == '\n' || c == '\r' ? ' ' : c;
  }
  return out;
}

}  // namespace

std::string value_text(const TrackerValue& value) {
  const auto& data = value.as_variant();
  if (const auto* real = std::get_if<double>(&data)) return shortest_number(*real);
  if (const auto* whole = std::get_if<std::int64_t>(&data)) return std::to_string(*whole);
  if (const auto* text = std::get_if<std::string>(&data)) return *text;
  if (const auto* several = std::get_if<Scalars>(&data)) return scalars_text(*several);
  return histogram_text(std::get<Histogram>(data));
}

std::string markdown(const TrackerTable& table) {
  std::string head = "|", rule = "|", body;
  for (const auto& column : table.columns) {
    head += " " + cell(column) + " |";
    rule += " --- |";
  }
  for (const auto& row : table.rows) {
    body += "\n|";
    for (const auto& value : row) body += " " + cell(value_text(value)) + " |";
  }
  return head + "\n" + rule + body;
}

}  // namespace accelerate::detail
