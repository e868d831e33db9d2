// LibTorch's log, silenced where an exception says the same.
#pragma once

namespace accelerate::compat {

/// While alive, LibTorch logs only errors. Its store otherwise prints twenty frames of the stack
/// before it throws what we explain. Does nothing where the user has set TORCH_CPP_LOG_LEVEL.
/// Process-wide: warnings of other threads are lost meanwhile, so put it only around calls that
/// return at once. Scopes may overlap on several threads.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

}  // namespace accelerate::compat
