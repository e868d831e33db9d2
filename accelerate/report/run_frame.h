// A run as a page of text for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "accelerate/report/run_history.h"
#include "accelerate/report/terminal_text.h"

namespace accelerate {

struct RunFrameOptions {
  std::string name = {};  ///< The run's.
  std::size_t columns = 80;
  std::size_t rows = 24;
  bool utf8 = true;         ///< Else ASCII alone.
  double now = 0;           ///< Unix seconds.
  std::string footer = {};  ///< The last line, such as "q leaves"; "" for none.
};

/// At most `rows` lines of at most `columns`: state, progress with the time left, current values,
/// curves, where a step's time goes, checkpoints, notes. Where there is little room, the lower ones
/// go first. Texts of the log are made safe for a terminal.
[[nodiscard]] std::vector<StyledLine> run_frame(const RunHistory& history,
                                                const RunFrameOptions& options);

/// The state in one line, for a log: "bert: 420/1000 (42%) [00:10<00:14, 41.9it/s, loss=0.41]".
[[nodiscard]] std::string run_line(const RunHistory& history, const std::string& name);

}  // namespace accelerate
