// What the programs print.
#pragma once

#include <cmath>

/// Returns `value` with two digits after the point, so that a line reads "accuracy 0.97".
inline double rounded(double value) {
  return std::round(value * 100) / 100;
}
