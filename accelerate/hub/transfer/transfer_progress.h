// The line that shows how far one file is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/base/progress_bar.h"
#include "accelerate/hub/repository.h"

namespace accelerate::detail {

/// Shows nothing where HubOptions::show_progress is false or HF_HUB_DISABLE_PROGRESS_BARS is on.
class TransferProgress {
 public:
  TransferProgress(const std::string& file, std::optional<std::uint64_t> size_bytes,
                   const HubOptions& options);
  /// `bytes` more are there; negative where what was there begins anew.
  void add(std::int64_t bytes);

 private:
  ProgressBar bar_;
};

}  // namespace accelerate::detail
