// Turns SIGTERM and SIGINT into a request to end after the present step.
#pragma once

namespace accelerate::detail {

/// While an object lives, a SIGTERM or SIGINT that would have ended the process is remembered
/// instead. A second SIGINT ends the process. A signal that the program handles or ignores is left
/// alone. At most one object at a time, for the main thread's training.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came while the last object lived; 0 if none.
  [[nodiscard]] static int received();

 private:
  bool catches_[2] = {false, false};
};

}  // namespace accelerate::detail
