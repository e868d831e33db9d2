// What a chart of a page shows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "accelerate/watch/run_log/axis.h"
#include "accelerate/watch/run_log/series.h"

namespace accelerate::detail {

/// A checkpoint on the horizontal axis.
struct ChartMark {
  double x = 0;
  bool best = false;
};

struct Chart {
  std::string title;
  std::string unit = {};        ///< Unit of the values; "" for none.
  std::string x_name = "step";  ///< What the horizontal axis counts.
  std::vector<ChartSeries> series = {};
  std::vector<ChartMark> marks = {};
  std::optional<AxisRange> x_range = {};  ///< Taken from the points when absent.
};

}  // namespace accelerate::detail
