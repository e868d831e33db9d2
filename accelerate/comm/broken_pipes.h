// Keeps SIGPIPE away from threads that write to connections.
#pragma once

#include <csignal>

#include "accelerate/base/signal_guards.h"

namespace accelerate::detail {

/// While it lives, a write to a connection that the peer has closed does not raise SIGPIPE on the
/// calling thread, nor ever on threads that are started meanwhile. Gloo and c10d's store report such
/// a write as an error if the process survives it.
class WithoutBrokenPipes {
  SuppressedSignal pipe_{SIGPIPE};
};

}  // namespace accelerate::detail
