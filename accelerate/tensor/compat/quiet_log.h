// LibTorch's log, silenced where an exception says the same.
#pragma once

namespace accelerate::compat {

/// While alive, LibTorch logs only errors, or nothing. Its store otherwise prints twenty frames of
/// the stack before it throws what we explain. Does nothing where the user has set
/// TORCH_CPP_LOG_LEVEL. Process-wide: warnings of other threads are lost meanwhile, so put it only
/// around calls that return at once or that begin a group. Scopes may overlap on several threads;
/// the quietest counts until the last one ends.
class QuietLog {
 public:
  enum class Keeps { errors, nothing };
  explicit QuietLog(Keeps keeps = Keeps::errors);
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

/// From now on LibTorch logs only errors; warnings (TORCH_WARN) of the calling thread go to the logger
/// "torch". For the process that hosts a store: the store's thread logs a line for every byte that a
/// stranger sends to its port. Does nothing where the user has set TORCH_CPP_LOG_LEVEL.
void silence_store();

}  // namespace accelerate::compat
