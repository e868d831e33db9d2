// What trackers are given: values of a step, images, tables, and the configuration of a run.
//
//   accelerator.log({{"loss", loss}, {"epoch", epoch}, {"note", "warm-up"},
//                    {"accuracy", Scalars{{"train", 0.91}, {"test", 0.88}}},
//                    {"weights", Histogram{net->fc->weight}}}, step);
//   accelerator.init_trackers("fashion",
//                             {{"lr", 3e-4}, {"optimizer", ConfigMap{{"name", "adamw"}}}});
#pragma once

#include <ATen/core/Tensor.h>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "accelerate/base/logger.h"
#include "accelerate/formats/tensorboard/tensorboard_events.h"

namespace accelerate::detail {

// Turns tensors into what trackers show: distributions and pictures.

/// Returns how the finite elements of `values` (any shape and layout, real dtype, any device) are
/// distributed over TensorBoard's default buckets: ±1e-12 × 1.1^k up to 1e20, counted as in
/// `torch.utils.tensorboard`. Returns nullopt if there are none. Unlike in PyTorch, NaN and
/// infinities do not affect any field. Cost: a copy to the CPU as float64, and a table look-up per
/// element.
[[nodiscard]] std::optional<HistogramSummary> summarize(const at::Tensor& values);

/// Returns the pixels of `image` (see TrackerImages for shapes) as a PNG file with 8 bits per
/// channel. Floating-point values are multiplied by 255, clamped to 0 … 255 and truncated; NaN is
/// black. Throws UsageError for other shapes and dtypes; the error names `name`.
[[nodiscard]] PngImage encode_image(const std::string& name, const at::Tensor& image);

// Warnings of a tracker, from any thread.

/// Warns through the logger accelerate.tracking, on every rank: a tracker already runs on the right
/// ranks, and its threads belong to none. Drops all exceptions: a wrong ACCELERATE_LOG_LEVEL, or a
/// sink that throws, must not end the thread that reports a full disk.
inline void warn(const std::string& text) noexcept {
  try {
    get_logger("accelerate.tracking").warning(text, {.main_process_only = false});
  } catch (...) {  // See above.
  }
}

/// As warn, once for each text.
inline void warn_once(const std::string& text) noexcept {
  try {
    get_logger("accelerate.tracking").warning_once(text, {.main_process_only = false});
  } catch (...) {  // See above.
  }
}

// The wall-clock time.

/// Returns the seconds since 1970, with fractions.
[[nodiscard]] inline double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace accelerate::detail

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
/// The configuration of a run, or the options of a tracker: values by name, in the order given.
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

struct Node;

namespace detail {

/// A setting after nested settings are flattened: "optimizer.lr" → 0.1. Lists become JSON. The
/// order is kept.
struct FlatSetting {
  std::string name;
  std::variant<std::monostate, bool, std::int64_t, double, std::string> value;
};
[[nodiscard]] std::vector<FlatSetting> flatten(const ConfigMap& config);

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
void check_config(const ConfigMap& config);

}  // namespace detail
}  // namespace accelerate

namespace accelerate::detail {

// Values and tables as text.

/// Returns "0.5", "3", the text itself, or "train: 0.9, test: 0.8". A distribution becomes its
/// least, mean and greatest element.
[[nodiscard]] std::string value_text(const TrackerValue& value);

/// Returns a Markdown table. '|' and line ends in cells do not break it.
[[nodiscard]] std::string markdown(const TrackerTable& table);

}  // namespace accelerate::detail
