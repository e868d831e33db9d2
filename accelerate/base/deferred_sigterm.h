// Puts off the end that SIGTERM asks for until something that should not be cut is through.
#pragma once

namespace accelerate {

/// While any of these lives, a SIGTERM that would have ended the process at once is remembered, and
/// it ends the process when the last of them goes. Where the program has a handler of its own, or
/// ignores the signal, nothing is changed; nor in a child that was forked meanwhile. Threads: may
/// be made and destroyed on any.
class DeferredSigterm {
 public:
  DeferredSigterm();
  ~DeferredSigterm();
  DeferredSigterm(const DeferredSigterm&) = delete;
  DeferredSigterm& operator=(const DeferredSigterm&) = delete;
};

}  // namespace accelerate
