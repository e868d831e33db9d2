// How a model and the files that it was loaded from differ, for the eye.
#pragma once

#include <string>
#include <vector>

namespace accelerate::detail {

struct LoadReport {
  /// Lines of a table: a tensor, and what became of it.
  struct Line {
    std::string name, status;
  };
  std::vector<Line> lines;

  /// A table of two columns. Tensors that differ in one number, as those of layers do, share a
  /// line: "layer.{0…11}.weight".
  [[nodiscard]] std::string table() const;
};

}  // namespace accelerate::detail
