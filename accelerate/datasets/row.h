// One row of a dataset.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/datasets/value.h"

namespace accelerate {

/// Values by the name of their column, in the order of the columns.
class Row {
 public:
  Row() = default;
  Row(std::initializer_list<std::pair<std::string, Value>> cells) : cells_(cells) {}

  /// Throws UsageError, with the names that are there, for another one.
  [[nodiscard]] const Value& operator[](std::string_view name) const;
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// nullptr if there is none. Looks at the place `likely` first: rows of one source have their
  /// columns in one order.
  [[nodiscard]] const Value* find(std::string_view name, std::size_t likely = 0) const;
  /// Changes a value or adds it behind the others.
  void set(std::string_view name, Value value);
  /// Adds a value behind the others, whose name none of them has. Cost: does not look for it.
  void add(std::string name, Value value) {
    cells_.emplace_back(std::move(name), std::move(value));
  }
  /// Whether it was there.
  bool erase(std::string_view name);

  [[nodiscard]] std::size_t size() const { return cells_.size(); }
  [[nodiscard]] auto begin() const { return cells_.begin(); }
  [[nodiscard]] auto end() const { return cells_.end(); }
  [[nodiscard]] bool operator==(const Row&) const = default;

 private:
  std::vector<std::pair<std::string, Value>> cells_;
};

}  // namespace accelerate
