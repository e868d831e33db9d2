// An option with one number for all parameter groups, or one number per group.
#pragma once

#include <string_view>
#include <vector>

namespace accelerate {

class PerGroup {
 public:
  PerGroup(double value) : values_{value}, same_(true) {}               // NOLINT: 0.1
  PerGroup(std::vector<double> values) : values_(std::move(values)) {}  // NOLINT: {0.1, 0.2}
  PerGroup(std::initializer_list<double> values) : values_(values) {}

  /// Returns one number for each of `groups` groups. Throws ConfigError if the option has another
  /// number of values; the error names `option`.
  [[nodiscard]] std::vector<double> expand(std::size_t groups, std::string_view option) const;
  /// Whether it is one number for all groups.
  [[nodiscard]] bool same_for_all() const { return same_; }
  /// The values as they were given.
  [[nodiscard]] const std::vector<double>& values() const { return values_; }

 private:
  std::vector<double> values_;
  bool same_ = false;
};

}  // namespace accelerate
