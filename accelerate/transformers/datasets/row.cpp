#include "accelerate/transformers/datasets/row.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/cell_error.h"
#include "accelerate/transformers/datasets/names.h"

namespace accelerate {

const Value* Row::find(std::string_view name, std::size_t likely) const {
  if (likely < cells_.size() && cells_[likely].first == name) return &cells_[likely].second;
  const auto found =
      std::ranges::find_if(cells_, [&](const auto& cell) { return cell.first == name; });
  return found == cells_.end() ? nullptr : &found->second;
}

const Value& Row::operator[](std::string_view name) const {
  if (const Value* value = find(name)) return *value;
  throw UsageError(detail::no_such("column", name, detail::names_of(cells_)));
}

void Row::set(std::string_view name, Value value) {
  const auto found =
      std::ranges::find_if(cells_, [&](const auto& cell) { return cell.first == name; });
  if (found != cells_.end()) {
    found->second = std::move(value);
  } else {
    cells_.emplace_back(std::string(name), std::move(value));
  }
}

bool Row::erase(std::string_view name) {
  return std::erase_if(cells_, [&](const auto& cell) { return cell.first == name; }) > 0;
}

void detail::throw_in_row(const CellError& error, const Row& row, std::size_t number) {
  std::string place = "row " + std::to_string(number);
  for (const auto& [name, value] : row) {
    if (error.is_of(value)) place += ", column '" + name + "'";
  }
  throw UsageError(place + ": " + error.what());
}

}  // namespace accelerate
