// The progress line of one file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/base/terminal/progress_bar.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate::detail {

/// Shows the progress of one file. Shows nothing if HubOptions::show_progress is false or
/// HF_HUB_DISABLE_PROGRESS_BARS is on.
class TransferProgress {
 public:
  TransferProgress(const std::string& file, std::optional<std::uint64_t> size_bytes,
                   const HubOptions& options);
  /// Adds `bytes` to the progress; negative if the transfer starts over.
  void add(std::int64_t bytes);

 private:
  ProgressBar bar_;
};

}  // namespace accelerate::detail
