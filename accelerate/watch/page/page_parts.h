// The parts of a report's page, each as HTML; "" when there is nothing to show.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "accelerate/watch/run_log/run_history.h"
#include "accelerate/watch/run_log/run_summary.h"

namespace accelerate::detail {

/// The style sheet: colours, layout and print.
[[nodiscard]] std::string_view page_style();
/// The script that shows the values below the pointer.
[[nodiscard]] std::string_view page_script();

[[nodiscard]] std::string page_charts(const RunHistory& history);

[[nodiscard]] std::string evaluation_table(const RunHistory& history, const RunSummary& summary);
[[nodiscard]] std::string checkpoint_table(const RunHistory& history);
[[nodiscard]] std::string argument_table(const RunHistory& history);
[[nodiscard]] std::string note_table(const RunHistory& history);

/// Returns the newest checkpoint that was marked as the best; nullptr if none was.
[[nodiscard]] const RunSaved* best_save(const RunHistory& history);

/// Returns a node as one line of text.
[[nodiscard]] std::string node_text(const Node& node);

}  // namespace accelerate::detail
