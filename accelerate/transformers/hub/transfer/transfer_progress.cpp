#include "accelerate/transformers/hub/transfer/transfer_progress.h"

#include "accelerate/base/environment.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

bool is_shown(const HubOptions& options) {
  return options.show_progress && !is_on(env("HF_HUB_DISABLE_PROGRESS_BARS"));
}

// Shortens a long name at its beginning, because its end says more.
std::string label_of(const std::string& file) {
  constexpr std::size_t kMost = 40;
  const std::string name = safe_text(file);
  std::string_view end = name;
  while (display_width(end) > kMost) (void)take_code_point(end);
  return (end.size() < name.size() ? "…" : "") + std::string(end);
}

}  // namespace

TransferProgress::TransferProgress(const std::string& file, std::optional<std::uint64_t> size_bytes,
                                   const HubOptions& options)
    : bar_({.description = label_of(file),
            .total = size_bytes,
            .unit = "B",
            .unit_scale = true,
            .leave = true,
            .disable = !is_shown(options)}) {}

void TransferProgress::add(std::int64_t bytes) {
  bar_.update(static_cast<std::uint64_t>(bytes));  // Modulo 2^64, so a negative number subtracts.
}

}  // namespace accelerate::detail
