// The text of a progress bar, as a pure function of its state. Part of base/progress_bar.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace accelerate::detail {

struct ProgressView {
  std::string description = {};              ///< In front; "" for none.
  std::uint64_t done = 0;                    ///< Units done.
  std::optional<std::uint64_t> total = {};   ///< Units in all; unknown when empty.
  std::chrono::duration<double> elapsed{0};  ///< Since the start.
  double units_per_second = 0;               ///< 0 when not known yet.
  std::string unit = "it";                   ///< What is counted.
  bool unit_scale = false;                   ///< Writes "1.23G" for 1,230,000,000.
  std::string postfix = {};                  ///< "key=value, key=value"; "" for none.
};

/// Returns "train:  42%|████▏     | 420/1000 [00:10<00:14, 41.9it/s, loss=0.5]" in at most
/// `columns` columns. The bar takes the room that the rest leaves; when room is short it is left
/// out first. Source of the layout: tqdm.
[[nodiscard]] std::string format_progress_bar(const ProgressView& view, std::size_t columns,
                                              bool utf8);

/// Returns a line without a bar, for a log: "train: 420/1000 (42%) [00:10<00:14, 41.9it/s, …]".
[[nodiscard]] std::string format_progress_line(const ProgressView& view);

/// "01:05", "1:00:00": minutes and seconds, hours in front where needed.
[[nodiscard]] std::string format_interval(std::chrono::duration<double> time);

/// Three significant digits: "0.123", "1e-05", "41.9".
[[nodiscard]] std::string format_short(double value);

}  // namespace accelerate::detail
