// Whether gradients may come and whether they are synchronised. Every engine asks this before it
// takes a gradient.
#pragma once

#include <atomic>
#include <string>

namespace accelerate::detail {

/// A forward of the prepared model arms it. A backward through accelerator.backward() uses that up.
class Arming {
 public:
  void before_forward(bool grad_enabled) {
    if (grad_enabled) ++armed_;
  }
  void begin_backward(bool retain_graph);
  void finish_backward();
  void abandon_backward() { in_backward_ = false; }

  /// To be called for each gradient. Throws UsageError outside of accelerator.backward(), and when
  /// no prepared forward has run.
  void check(const std::string& parameter) const;
  /// Whether a gradient came in accelerator.backward() although no prepared forward has run. To be
  /// called for each gradient in place of check() where no other rank waits for it.
  [[nodiscard]] bool came_past_the_model() const;
  /// Returns the message of check() when no prepared forward has run.
  [[nodiscard]] static std::string past_the_model(const std::string& parameter);

  /// Whether the model ran forward before the present or last backward.
  [[nodiscard]] bool was_armed() const { return armed_in_this_backward_; }
  /// Whether no forward waits for its backward.
  [[nodiscard]] bool is_idle() const { return armed_ == 0; }

  void set_synchronize(bool synchronize) { synchronize_ = synchronize; }
  [[nodiscard]] bool synchronize() const { return synchronize_; }
  /// Makes the next backward that brings gradients synchronise, whatever set_synchronize said.
  void trigger() { triggered_ = true; }
  [[nodiscard]] bool synchronizes() const { return synchronize_ || triggered_; }

 private:
  bool synchronize_ = true;
  bool triggered_ = false;
  bool keep_armed_ = false;
  int armed_ = 0;                                     // forwards that no backward has used up
  std::atomic<bool> in_backward_ = false;             // read by hooks on backward's threads
  std::atomic<bool> armed_in_this_backward_ = false;  // as above
  mutable std::atomic<bool> reached_ = false;         // a gradient came in this backward
};

}  // namespace accelerate::detail
