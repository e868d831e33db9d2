// Whether gradients may come, and whether they are to be synchronised: what every engine asks
// before it takes one.
#pragma once

#include <atomic>
#include <string>

namespace accelerate::detail {

/// A forward of the prepared model arms it, a backward through accelerator.backward() uses that up.
class Arming {
 public:
  void before_forward(bool grad_enabled) {
    if (grad_enabled) ++armed_;
  }
  void begin_backward(bool retain_graph);
  void finish_backward();
  void abandon_backward() { in_backward_ = false; }

  /// To be called for each gradient. Throws UsageError: outside of accelerator.backward(), or
  /// though no prepared forward has run.
  void check(const std::string& parameter) const;
  /// To be called for each gradient instead, where no other rank waits for it. Whether it came by
  /// accelerator.backward() though no prepared forward has run.
  [[nodiscard]] bool came_past_the_model() const;
  /// What check() says then.
  [[nodiscard]] static std::string past_the_model(const std::string& parameter);

  /// Whether the model ran forward before the present or last backward.
  [[nodiscard]] bool was_armed() const { return armed_in_this_backward_; }
  /// Whether no forward waits for its backward.
  [[nodiscard]] bool is_idle() const { return armed_ == 0; }

  void set_synchronize(bool synchronize) { synchronize_ = synchronize; }
  [[nodiscard]] bool synchronize() const { return synchronize_; }
  /// The next backward that brings gradients synchronises all the same.
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
