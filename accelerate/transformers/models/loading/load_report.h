// A readable report of how a model differs from the files that it was loaded from.
#pragma once

#include <string>
#include <vector>

namespace accelerate::detail {

struct LoadReport {
  /// A line of the table: a tensor, and what became of it.
  struct Line {
    std::string name, status;
  };
  std::vector<Line> lines;

  /// Returns a table of two columns. Tensors whose names differ only in a number, such as a layer's
  /// number, share a line: "layer.{0…11}.weight".
  [[nodiscard]] std::string table() const;
};

}  // namespace accelerate::detail
