// A cell that was read as another type, and the row that it is in.
#pragma once

#include <cstddef>
#include <string>

#include "accelerate/base/error.h"

namespace accelerate {
class Row;
class Value;
}  // namespace accelerate

namespace accelerate::detail {

/// Names the type that was found, the type that was allowed, and the cure. Whoever has the row of
/// the cell adds the column and the row by called_on_row().
class CellError : public UsageError {
 public:
  CellError(const Value& cell, const std::string& what) : UsageError(what), cell_(&cell) {}
  [[nodiscard]] bool is_of(const Value& value) const { return cell_ == &value; }

 private:
  const Value* cell_;  ///< Only compared: the value may be gone.
};

/// Throws `error` again as an error that says which row of the dataset, and which of its columns.
[[noreturn]] void throw_in_row(const CellError& error, const Row& row, std::size_t number);

/// Returns what `function` returns for `row`, which is row `number` of a dataset. A CellError gets
/// the names of the row and of the column.
template <typename Function>
auto called_on_row(const Function& function, const Row& row, std::size_t number) {
  try {
    return function(row);
  } catch (const CellError& error) {
    throw_in_row(error, row, number);
  }
}

}  // namespace accelerate::detail
