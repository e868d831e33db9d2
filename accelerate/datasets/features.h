// The types of columns.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace accelerate {

/// The type of a column: any value may be missing.
class Feature {
 public:
  enum class Kind : std::uint8_t { null, integer, floating, boolean, string, list };

  /// Of a column in which every value is missing, and of the entries of lists that are all empty.
  static Feature null() { return Feature(Kind::null); }
  static Feature integer() { return Feature(Kind::integer); }
  static Feature floating() { return Feature(Kind::floating); }
  static Feature boolean() { return Feature(Kind::boolean); }
  static Feature string() { return Feature(Kind::string); }
  static Feature list_of(Feature element);
  /// Integers from 0 on that stand for `names`, and -1 for no class. Throws UsageError for a name
  /// that comes twice or is not UTF-8. Cost: copies share the names.
  static Feature class_label(std::vector<std::string> names);

  [[nodiscard]] Kind kind() const { return kind_; }
  /// Of a list. Throws UsageError for another feature.
  [[nodiscard]] const Feature& element() const;
  /// Of a class label; empty for other features.
  [[nodiscard]] const std::vector<std::string>& names() const;
  [[nodiscard]] bool is_class_label() const { return classes_ != nullptr; }
  /// The number of a class; nullopt for an unknown name.
  [[nodiscard]] std::optional<std::int64_t> find_class(std::string_view name) const;
  /// Throws UsageError for an unknown name, with the nearest one.
  [[nodiscard]] std::int64_t str2int(std::string_view name) const;
  /// Throws UsageError for another number than 0 up to the number of classes.
  [[nodiscard]] const std::string& int2str(std::int64_t value) const;

  /// "null", "int64", "float64", "bool", "string", "list<int64>", "class_label(neg, pos)".
  [[nodiscard]] std::string description() const;
  [[nodiscard]] bool operator==(const Feature& other) const;
  /// As ==, but for the names of classes.
  [[nodiscard]] bool has_kinds_of(const Feature& other) const;

 private:
  explicit Feature(Kind kind) : kind_(kind) {}

  struct Classes {
    std::vector<std::string> names;
    /// Into names.
    std::unordered_map<std::string_view, std::int64_t> numbers;
  };

  Kind kind_;
  std::shared_ptr<const Feature> element_;
  std::shared_ptr<const Classes> classes_;
};

/// Columns by name, in order.
using Features = std::vector<std::pair<std::string, Feature>>;

namespace detail {
/// "text: string, label: int64"
[[nodiscard]] std::string described(const Features& features);
/// Throws UsageError for two columns of one name, a name that is not UTF-8, and lists more than 64
/// deep within each other, which no table in a file can have.
void check_features(const Features& features);
/// Lists within lists that a table may have: they are read by recursion.
inline constexpr std::size_t kDeepestList = 64;
}  // namespace detail

}  // namespace accelerate
