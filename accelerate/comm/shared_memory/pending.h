// A call under way on one rank.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace accelerate::detail {

class Pending {
 public:
  virtual ~Pending() = default;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  [[nodiscard]] bool is_done() const { return done_.load(std::memory_order_acquire); }
  /// The error of a call that is done; null if it succeeded.
  [[nodiscard]] const std::exception_ptr& error() const { return error_; }

 protected:
  /// Holds `keep` until the call has ended.
  explicit Pending(std::shared_ptr<void> keep) : keep_(std::move(keep)) {}

 private:
  friend class Engine;

  std::atomic<bool> done_ = false;
  std::exception_ptr error_;
  std::vector<std::function<void()>> followers_;
  std::shared_ptr<void> keep_;
};

}  // namespace accelerate::detail
