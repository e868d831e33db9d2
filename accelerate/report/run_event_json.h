// One event of a run log as one line of JSON.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "accelerate/report/run_events.h"

namespace accelerate::detail {

/// Longest line that is written or read.
inline constexpr std::size_t kMostOfRunLine = std::size_t{1} << 20;

/// The event of `line`, which has no line end; nullopt for an unknown one and for what is no JSON
/// object. Fields of another type than theirs count as missing. Never throws for its content.
[[nodiscard]] std::optional<RunEvent> parse_run_event(std::string_view line);

/// The event as a line with its line end: absent fields left out, NaN and infinities as texts.
[[nodiscard]] std::string run_event_line(const RunEvent& event);

/// A JSON text also with the bare NaN and Infinity that Python writes. A discarded value if it is
/// none.
[[nodiscard]] nlohmann::json parse_lenient_json(std::string_view text);

/// A number, or one of the texts "nan", "inf", "-inf"; NaN for null; nullopt for all else.
[[nodiscard]] std::optional<double> run_number(const nlohmann::json& value);

/// `value` as a document. Below a depth of 12 it is null.
[[nodiscard]] Node run_node(const nlohmann::json& value);

}  // namespace accelerate::detail
