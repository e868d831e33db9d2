// SIGTERM and SIGINT as a wish to end after the present step.
#pragma once

namespace accelerate::detail {

/// While one lives, a SIGTERM or SIGINT that would have ended the process is remembered. A second
/// SIGINT ends the process as before. A signal for which the program has a handler of its own, or
/// which it ignores, is left alone. One at a time; for the main thread's loop.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came; 0 for none.
  [[nodiscard]] int received() const;

 private:
  bool catches_[2] = {false, false};
};

}  // namespace accelerate::detail
