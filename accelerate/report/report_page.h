// A run as one HTML page.
#pragma once

#include <string>

#include "accelerate/report/run_history.h"

namespace accelerate {

/// The page: figures, charts and tables, without anything from outside, readable without its
/// script, in light and dark. `name` is the run's. Equal histories give equal pages. At most about
/// 2 MB: curves are thinned, tables keep their newest rows. Cost: some milliseconds, and one for
/// each thousand logs.
[[nodiscard]] std::string report_page(const RunHistory& history, const std::string& name);

}  // namespace accelerate
