#include "accelerate/transformers/datasets/called_on_row.h"

namespace accelerate::detail {

void throw_in_row(const CellError& error, const Row& row, std::size_t number) {
  std::string place = "row " + std::to_string(number);
  for (const auto& [name, value] : row) {
    if (error.is_of(value)) place += ", column '" + name + "'";
  }
  throw UsageError(place + ": " + error.what());
}

}  // namespace accelerate::detail
