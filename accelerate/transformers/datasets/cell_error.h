// A cell that was read as another type.
#pragma once

#include <string>

#include "accelerate/base/error.h"

namespace accelerate {
class Value;
}

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

}  // namespace accelerate::detail
