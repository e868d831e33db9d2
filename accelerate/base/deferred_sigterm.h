// Delays the end by SIGTERM until work that should not be interrupted is finished.
#pragma once

namespace accelerate {

/// While any object of this class lives, a SIGTERM that would have ended the process is only
/// remembered. It ends the process when the last object is destroyed. Nothing changes where the
/// program handles or ignores SIGTERM itself, nor in a child that was forked meanwhile. Threads:
/// objects may be made and destroyed on any.
class DeferredSigterm {
 public:
  DeferredSigterm();
  ~DeferredSigterm();
  DeferredSigterm(const DeferredSigterm&) = delete;
  DeferredSigterm& operator=(const DeferredSigterm&) = delete;
};

}  // namespace accelerate
