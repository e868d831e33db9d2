// One row of a dataset.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/transformers/datasets/value.h"

namespace accelerate {

/// Values by the name of their column, in the order of the columns.
class Row {
 public:
  Row() = default;
  Row(std::initializer_list<std::pair<std::string, Value>> cells) : cells_(cells) {}

  /// Throws UsageError for an unknown name, and lists the names that exist.
  [[nodiscard]] const Value& operator[](std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Returns nullptr if the row has no such value. Looks at place `likely` first, because rows of
  /// one source have their columns in the same order.
  [[nodiscard]] const Value* find(std::string_view name, std::size_t likely = 0) const;
  /// Changes a value, or appends it.
  void set(std::string_view name, Value value);
  /// Appends a value whose name the row does not have yet. Cost: does not check this.
  void add(std::string name, Value value) {
    cells_.emplace_back(std::move(name), std::move(value));
  }
  /// Removes a value. Returns whether it existed.
  bool erase(std::string_view name);

  [[nodiscard]] std::size_t size() const { return cells_.size(); }
  [[nodiscard]] auto begin() const { return cells_.begin(); }
  [[nodiscard]] auto end() const { return cells_.end(); }
  [[nodiscard]] bool operator==(const Row&) const = default;

 private:
  std::vector<std::pair<std::string, Value>> cells_;
};

}  // namespace accelerate
