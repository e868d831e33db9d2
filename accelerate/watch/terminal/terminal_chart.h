// Curves in a terminal.
#pragma once

#include <cstddef>
#include <vector>

#include "accelerate/base/terminal/terminal_text.h"
#include "accelerate/watch/run_log/run_events.h"
#include "accelerate/watch/run_log/series.h"

namespace accelerate::detail {

// Where the time of a step goes, as a bar in a terminal.

struct StepSplitOptions {
  std::size_t columns = 80;
  bool legend = true;  ///< Whether a second line names the parts and their shares.
  bool utf8 = true;
};

/// Returns "step 0.31 s ████████", with a colour (in ASCII a letter) for each part, and the legend.
/// Returns no lines when all parts are 0.
[[nodiscard]] std::vector<StyledLine> step_split_lines(const StepSeconds& seconds,
                                                       const StepSplitOptions& options);

struct TerminalChartOptions {
  std::size_t columns = 80;  ///< Including the labels.
  std::size_t rows = 10;     ///< Including the line of labels below.
  bool utf8 = true;          ///< Braille, eight dots a character; else letters.
};

/// Draws all series into one plane, later series over earlier ones. Returns `rows` lines of at most
/// `columns`, with labels on the left and below. A value that is not finite leaves a gap. Returns
/// no lines when there is too little room (below 12 columns or 3 rows) or no finite value.
[[nodiscard]] std::vector<StyledLine> terminal_chart(const std::vector<ChartSeries>& series,
                                                     const TerminalChartOptions& options);

/// Returns the sign of a curve in legends: a line in its colour, or its letter.
[[nodiscard]] StyledText curve_sign(std::size_t series, bool utf8);

}  // namespace accelerate::detail
