// The time limit of work that waits more than once.
#pragma once

#include <algorithm>
#include <chrono>

namespace accelerate {

/// The time limit of a step with several waits. Starts at construction.
class Deadline {
 public:
  explicit Deadline(std::chrono::milliseconds timeout) : timeout_(timeout) {}
  [[nodiscard]] std::chrono::milliseconds timeout() const { return timeout_; }
  [[nodiscard]] std::chrono::milliseconds waited() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 start_);
  }
  /// Never negative.
  [[nodiscard]] std::chrono::milliseconds left() const {
    return std::max(timeout_ - waited(), std::chrono::milliseconds(0));
  }
  [[nodiscard]] bool is_over() const { return left().count() == 0; }

 private:
  std::chrono::milliseconds timeout_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace accelerate
