// Calls a user's function on a row, and says which cell it could not read.
#pragma once

#include <cstddef>

#include "accelerate/transformers/datasets/cell_error.h"
#include "accelerate/transformers/datasets/row.h"

namespace accelerate::detail {

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
