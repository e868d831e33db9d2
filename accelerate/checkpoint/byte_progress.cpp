#include "accelerate/checkpoint/byte_progress.h"

#include <utility>

#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/terminal_screen.h"

namespace accelerate {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

}  // namespace

ByteProgress::ByteProgress(ByteProgressOptions options)
    : options_(std::move(options)),
      shown_(process_identity().is_local_main_process() && is_redrawable(options_.fd)),
      due_(Clock::now() + options_.delay) {}

void ByteProgress::operator()(std::uint64_t bytes) {
  const std::uint64_t before = done_bytes_ / kMiB;
  done_bytes_ += bytes;
  if (bar_) return bar_->update(done_bytes_ / kMiB - before);
  if (!shown_ || Clock::now() < due_) return;
  bar_ = std::make_unique<ProgressBar>(
      ProgressOptions{.description = options_.description,
                      .total = (options_.total_bytes + kMiB - 1) / kMiB,
                      .initial = done_bytes_ / kMiB,
                      .unit = "MiB",
                      .main_process_only = false,
                      .leave = false,
                      .fd = options_.fd});
}

}  // namespace accelerate
