// Curves in a terminal.
#pragma once

#include <cstddef>
#include <vector>

#include "accelerate/report/series.h"
#include "accelerate/report/terminal_text.h"

namespace accelerate::detail {

struct TerminalChartOptions {
  std::size_t columns = 80;  ///< With the labels.
  std::size_t rows = 10;     ///< With the line of labels below.
  bool utf8 = true;          ///< Eight dots a character, else a letter.
};

/// The series in one plane, later ones above: `rows` lines of at most `columns`. Labels stand left
/// and below. Values that are not finite leave gaps. Empty where there is no room (12 columns, 3
/// rows) or no finite value.
[[nodiscard]] std::vector<StyledLine> terminal_chart(const std::vector<ChartSeries>& series,
                                                     const TerminalChartOptions& options);

/// What a curve is drawn with: a line in its colour, or its letter.
[[nodiscard]] StyledText curve_sign(std::size_t series, bool utf8);

}  // namespace accelerate::detail
