// One event of a run log as one line of JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "accelerate/watch/run_log/run_events.h"

namespace accelerate::detail {

/// The length in bytes of the longest line that is written or read.
inline constexpr std::size_t kMostOfRunLine = std::size_t{1} << 20;

/// Returns the event of `line`, which has no line end. Returns nullopt for an unknown event and for
/// a line that is not a JSON object. A field of the wrong type counts as missing. Never throws,
/// whatever `line` contains.
[[nodiscard]] std::optional<RunEvent> parse_run_event(std::string_view line);

/// Returns the event as a line with its line end. Absent fields are left out; NaN and infinities
/// are written as strings.
[[nodiscard]] std::string run_event_line(RunEvent event);

/// Parses a JSON text, and accepts the bare NaN and Infinity that Python writes. Returns a
/// discarded value if the text is not valid.
[[nodiscard]] nlohmann::json parse_lenient_json(std::string_view text);

/// Returns a number or one of the strings "nan", "inf", "-inf" as a double. Returns NaN for null,
/// and nullopt for everything else.
[[nodiscard]] std::optional<double> run_number(const nlohmann::json& value);

}  // namespace accelerate::detail
