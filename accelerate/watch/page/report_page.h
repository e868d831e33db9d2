// A run as one HTML page.
#pragma once

#include <string>

#include "accelerate/watch/run_log/run_history.h"

namespace accelerate {

/// Returns the page: figures, charts and tables. It loads nothing from outside, is readable without
/// its script, and has light and dark colours. `name` is the name of the run. Equal histories give
/// equal pages. The page has at most about 2 MB: curves are thinned, and tables keep their newest
/// rows. Cost: some milliseconds, plus one for each thousand logs.
[[nodiscard]] std::string report_page(const RunHistory& history, const std::string& name);

}  // namespace accelerate
