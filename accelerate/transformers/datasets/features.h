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

/// The type of a column. Values of any type may be missing.
class Feature {
 public:
  enum class Kind : std::uint8_t { null, integer, floating, boolean, string, list };

  /// The type of a column whose values are all missing, and of the entries of lists that are all
  /// empty.
  static Feature null() { return Feature(Kind::null); }
  static Feature integer() { return Feature(Kind::integer); }
  static Feature floating() { return Feature(Kind::floating); }
  static Feature boolean() { return Feature(Kind::boolean); }
  static Feature string() { return Feature(Kind::string); }
  static Feature list_of(Feature element);
  /// Integers that stand for `names`, from 0 on; -1 stands for no class. Throws UsageError for no
  /// names, and for a name that occurs twice or is not UTF-8. Cost: copies share the names.
  static Feature class_label(std::vector<std::string> names);

  [[nodiscard]] Kind kind() const { return kind_; }
  /// The type of a list's entries. Throws UsageError for other features.
  [[nodiscard]] const Feature& element() const;
  /// The class names of a class label; empty for other features.
  [[nodiscard]] const std::vector<std::string>& names() const;
  [[nodiscard]] bool is_class_label() const { return classes_ != nullptr; }
  /// Returns the number of a class; nullopt for an unknown name.
  [[nodiscard]] std::optional<std::int64_t> find_class(std::string_view name) const;
  /// Returns the number of a class. Throws UsageError for an unknown name, and suggests the nearest
  /// name.
  [[nodiscard]] std::int64_t str2int(std::string_view name) const;
  /// Returns the name of a class. Throws UsageError unless 0 <= value < number of classes.
  [[nodiscard]] const std::string& int2str(std::int64_t value) const;

  /// Describes the type: "null", "int64", "float64", "bool", "string", "list<int64>",
  /// "class_label(neg, pos)".
  [[nodiscard]] std::string description() const;
  [[nodiscard]] bool operator==(const Feature& other) const;
  /// As ==, but ignores the names of classes.
  [[nodiscard]] bool has_kinds_of(const Feature& other) const;

 private:
  explicit Feature(Kind kind) : kind_(kind) {}

  struct Classes {
    std::vector<std::string> names;
    /// The numbers of names. The keys point into `names`.
    std::unordered_map<std::string_view, std::int64_t> numbers;
  };

  Kind kind_;
  std::shared_ptr<const Feature> element_;
  std::shared_ptr<const Classes> classes_;
};

/// Types of columns by name, in the order of the columns.
using Features = std::vector<std::pair<std::string, Feature>>;

namespace detail {
/// Describes columns: "text: string, label: int64".
[[nodiscard]] std::string described(const Features& features);
/// Throws UsageError for two columns with one name, for a name that is not UTF-8, and for lists
/// nested more than kDeepestList deep.
void check_features(const Features& features);
/// How deep lists of a table may be nested. Limited, because lists are read by recursion.
inline constexpr std::size_t kDeepestList = 64;
}  // namespace detail

}  // namespace accelerate
