// Where the time of a step goes, as a bar in a terminal.
#pragma once

#include <cstddef>
#include <vector>

#include "accelerate/base/terminal/terminal_text.h"
#include "accelerate/watch/run_log/run_events.h"

namespace accelerate::detail {

struct StepSplitOptions {
  std::size_t columns = 80;
  bool legend = true;  ///< Whether a second line names the parts and their shares.
  bool utf8 = true;
};

/// Returns "step 0.31 s ████████", with a colour (in ASCII a letter) for each part, and the legend.
/// Returns no lines when all parts are 0.
[[nodiscard]] std::vector<StyledLine> step_split_lines(const StepSeconds& seconds,
                                                       const StepSplitOptions& options);

}  // namespace accelerate::detail
