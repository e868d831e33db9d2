// What trackers are given: values of a step, images, tables, and the configuration of a run.
//
//   accelerator.log({{"loss", loss}, {"epoch", epoch}, {"note", "warm-up"},
//                    {"accuracy", Scalars{{"train", 0.91}, {"test", 0.88}}},
//                    {"weights", Histogram{net->fc->weight}}}, step);
//   accelerator.init_trackers("fashion",
//                             {{"lr", 3e-4}, {"optimizer", ConfigMap{{"name", "adamw"}}}});
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace accelerate {

namespace detail {
/// Whether `value` exceeds the greatest std::int64_t. It is then kept as a double.
template <std::integral Number>
[[nodiscard]] constexpr bool exceeds_int64(Number value) {
  if constexpr (sizeof(Number) < sizeof(std::int64_t) || std::signed_integral<Number>) return false;
  return static_cast<std::uint64_t>(value) > std::numeric_limits<std::int64_t>::max();
}
}  // namespace detail

/// Several numbers under one name, drawn in one plot.
using Scalars = std::vector<std::pair<std::string, double>>;

/// The distribution of a tensor's elements: any shape and layout, any real dtype, any device.
struct Histogram {
  at::Tensor values;
};

/// One value: a number, a text, several numbers, or a distribution. Numbers convert implicitly. A
/// tensor of one element becomes its number, which waits for the tensor's device. Throws UsageError
/// for a tensor with another number of elements.
class TrackerValue : public std::variant<double, std::int64_t, std::string, Scalars, Histogram> {
 public:
  // NOLINTBEGIN(google-explicit-constructor): {"loss", 0.5} is the point.
  template <std::integral Number>
  TrackerValue(Number value)
      : variant(detail::exceeds_int64(value) ? variant(static_cast<double>(value))
                                             : variant(static_cast<std::int64_t>(value))) {}
  template <std::floating_point Number>
  TrackerValue(Number value) : variant(static_cast<double>(value)) {}
  TrackerValue(const char* text) : variant(std::string(text)) {}
  TrackerValue(std::string text) : variant(std::move(text)) {}
  TrackerValue(std::string_view text) : variant(std::string(text)) {}
  TrackerValue(Scalars values) : variant(std::move(values)) {}
  TrackerValue(Histogram values) : variant(std::move(values)) {}
  TrackerValue(const at::Tensor& value);
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const variant& as_variant() const { return *this; }
};

/// Names and values, in the order in which they are shown.
using TrackerValues = std::vector<std::pair<std::string, TrackerValue>>;

/// Images by name. Shapes: [N, C, H, W] (a grid of 8 columns), [C, H, W] or [H, W]; C is 1 or 3, or
/// 4 without N. Dtypes: uint8, bool (black and white), or floating point in 0 … 1. Cost: the
/// logging call encodes PNG, some milliseconds per hundred thousand pixels.
using TrackerImages = std::vector<std::pair<std::string, at::Tensor>>;

struct TrackerTable {
  std::vector<std::string> columns;
  std::vector<std::vector<TrackerValue>> rows;  ///< Each as long as `columns`.
};

class ConfigValue;
/// Settings by name, in the order given.
using ConfigMap = std::vector<std::pair<std::string, ConfigValue>>;

/// Plain data: nothing, a boolean, a number, a text, a list, or settings by name.
class ConfigValue {
 public:
  using List = std::vector<ConfigValue>;
  using Data =
      std::variant<std::monostate, bool, std::int64_t, double, std::string, List, ConfigMap>;

  ConfigValue() = default;
  // NOLINTBEGIN(google-explicit-constructor): {"lr", 3e-4} is the point.
  ConfigValue(bool value) : data_(value) {}
  template <std::integral Number>
    requires(!std::same_as<Number, bool>)
  ConfigValue(Number value)
      : data_(detail::exceeds_int64(value) ? Data(static_cast<double>(value))
                                           : Data(static_cast<std::int64_t>(value))) {}
  template <std::floating_point Number>
  ConfigValue(Number value) : data_(static_cast<double>(value)) {}
  ConfigValue(const char* text) : data_(std::string(text)) {}
  ConfigValue(std::string text) : data_(std::move(text)) {}
  ConfigValue(std::string_view text) : data_(std::string(text)) {}
  ConfigValue(List items) : data_(std::move(items)) {}
  ConfigValue(ConfigMap entries) : data_(std::move(entries)) {}
  // NOLINTEND(google-explicit-constructor)

  [[nodiscard]] const Data& data() const { return data_; }

 private:
  Data data_;
};

/// The configuration of a run, or the options of a tracker.
using TrackerConfig = ConfigMap;

struct Node;

namespace detail {

/// A setting after nested settings are flattened: "optimizer.lr" → 0.1. Lists become JSON. The
/// order is kept.
struct FlatSetting {
  std::string name;
  std::variant<std::monostate, bool, std::int64_t, double, std::string> value;
};
[[nodiscard]] std::vector<FlatSetting> flatten(const TrackerConfig& config);

/// Converts `value` to a document for the YAML and JSON writers.
[[nodiscard]] Node to_node(const ConfigValue& value);

/// Returns the shortest text that reads back as `value`: "0.1", "1e-05", "nan", "inf", "-inf".
[[nodiscard]] std::string shortest_number(double value);
/// Formats the value as Python's str() does: "True", "None", "0.1", "3".
[[nodiscard]] std::string setting_text(const FlatSetting& setting);

/// Throw UsageError for an empty or repeated name, a text that is not UTF-8, and a histogram of
/// values that are not real numbers.
void check_values(const TrackerValues& values);
void check_names(const std::vector<std::string>& names, std::string_view what);
void check_config(const TrackerConfig& config);

}  // namespace detail
}  // namespace accelerate
