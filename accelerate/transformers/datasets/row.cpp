#include "accelerate/transformers/datasets/row.h"

#include <algorithm>

#include "accelerate/base/error.h"
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

}  // namespace accelerate
