// A run as a page of text for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "accelerate/base/terminal/terminal_text.h"
#include "accelerate/watch/run_log/run_history.h"

namespace accelerate {

struct RunFrameOptions {
  std::string name = {};  ///< The name of the run.
  std::size_t columns = 80;
  std::size_t rows = 24;
  bool utf8 = true;         ///< If false, ASCII only.
  double now = 0;           ///< Unix seconds.
  std::string footer = {};  ///< The last line, such as "q leaves"; "" for none.
};

/// Returns at most `rows` lines of at most `columns`: state, progress with the time left, current
/// values, curves, the split of a step's time, checkpoints, notes. When there is little room, the
/// lower lines are left out first. Texts from the log are made safe for a terminal.
[[nodiscard]] std::vector<StyledLine> run_frame(const RunHistory& history,
                                                const RunFrameOptions& options);

/// Returns the state in one line, for a log:
/// "bert: 420/1000 (42%) [00:10<00:14, 41.9it/s, loss=0.41]".
[[nodiscard]] std::string run_line(const RunHistory& history, const std::string& name);

}  // namespace accelerate
