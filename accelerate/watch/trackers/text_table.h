// Values and tables as text.
#pragma once

#include <string>

#include "accelerate/watch/trackers/values.h"

namespace accelerate::detail {

/// Returns "0.5", "3", the text itself, or "train: 0.9, test: 0.8". A distribution becomes its
/// least, mean and greatest element.
[[nodiscard]] std::string value_text(const TrackerValue& value);

/// Returns a Markdown table. '|' and line ends in cells do not break it.
[[nodiscard]] std::string markdown(const TrackerTable& table);

}  // namespace accelerate::detail
