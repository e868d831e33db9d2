// Turns the signals by which people and schedulers ask a process to end into a request that its
// loop looks at.
#pragma once

namespace accelerate {

/// While an object lives, a SIGTERM, SIGUSR1 or SIGINT that would have ended the process is
/// remembered instead. A second SIGINT ends the process, unless one of the two came from the parent:
/// a scheduler tells launcher and ranks alike, and the launcher passes the signal on. A signal that
/// the program handles or ignores is left alone, and so is a child that was forked meanwhile.
/// Threads: objects may be made and destroyed on any.
class StopSignals {
 public:
  /// Forgets an earlier signal if no other object lives.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came first while the last object lived; 0 if none.
  [[nodiscard]] static int received();
  /// Whether `signal` is remembered now; false if the program handles or ignores it itself.
  [[nodiscard]] static bool catches(int signal);
};

namespace detail {

// Ranks agree on a signal by a sum: that is one number in an exchange which they make anyway.

/// Returns what a rank adds to the sum; 0 without a signal. `ranks`: their number.
[[nodiscard]] double weight_of_signal(int signal, int ranks);
/// Returns the signal that counts for all ranks, or 0. SIGINT, by which a person asks, counts before
/// SIGTERM, and SIGTERM before SIGUSR1.
[[nodiscard]] int signal_of_weights(double sum, int ranks);

}  // namespace detail
}  // namespace accelerate
