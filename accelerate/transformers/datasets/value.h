// A cell of a dataset.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace accelerate {

/// An integer, a float, a boolean, a string, a list of these, a list of lists, or nothing. A list
/// whose entries have one type and are not missing is a vector of this type; any other list is a
/// vector of Values. Throws UsageError for an integer of more than 63 bits.
class Value {
 public:
  using List = std::vector<Value>;

  Value() = default;
  template <typename T>
    requires std::is_integral_v<T> && (!std::is_same_v<T, bool>)
  Value(T value) : data_(static_cast<std::int64_t>(value)) {  // NOLINT
    if (!std::in_range<std::int64_t>(value)) refuse(static_cast<std::uint64_t>(value));
  }
  Value(std::nullptr_t) = delete;
  Value(double value) : data_(value) {}                                  // NOLINT
  Value(float value) : data_(static_cast<double>(value)) {}              // NOLINT
  Value(bool value) : data_(value) {}                                    // NOLINT
  Value(std::string value) : data_(std::move(value)) {}                  // NOLINT
  Value(std::string_view value) : data_(std::string(value)) {}           // NOLINT
  Value(const char* value) : data_(std::string(value)) {}                // NOLINT
  Value(std::vector<std::int64_t> values) : data_(std::move(values)) {}  // NOLINT
  Value(std::vector<double> values) : data_(std::move(values)) {}        // NOLINT
  Value(std::vector<bool> values) : data_(std::move(values)) {}          // NOLINT
  Value(std::vector<std::string> values) : data_(std::move(values)) {}   // NOLINT
  Value(List values) : data_(std::move(values)) {}                       // NOLINT

  [[nodiscard]] bool is_missing() const { return holds<std::monostate>(); }
  [[nodiscard]] bool is_list() const;
  template <typename T>
  [[nodiscard]] bool holds() const {
    return std::holds_alternative<T>(data_);
  }

  // Each throws UsageError for another type: "a string is there; allowed is an integer".
  [[nodiscard]] std::int64_t integer() const;
  /// Also accepts an integer.
  [[nodiscard]] double number() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] const std::string& text() const;
  [[nodiscard]] const std::vector<std::int64_t>& integers() const;
  [[nodiscard]] const std::vector<double>& numbers() const;
  [[nodiscard]] const std::vector<std::string>& texts() const;
  /// Returns the entries of any list, as Values. Cost: copies them.
  [[nodiscard]] List list() const;

  /// Describes the type for messages: "an integer", "a list of strings", …
  [[nodiscard]] std::string description() const;
  [[nodiscard]] bool operator==(const Value&) const = default;

  template <typename Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return std::visit(std::forward<Visitor>(visitor), data_);
  }

 private:
  [[noreturn]] static void refuse(std::uint64_t value);

  std::variant<std::monostate, std::int64_t, double, bool, std::string, std::vector<std::int64_t>,
               std::vector<double>, std::vector<bool>, std::vector<std::string>, List>
      data_;
};

}  // namespace accelerate
