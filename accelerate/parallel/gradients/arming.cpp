#include "accelerate/parallel/gradients/arming.h"

#include "accelerate/base/error.h"

namespace accelerate::detail {

void Arming::begin_backward(bool retain_graph) {
  armed_in_this_backward_ = armed_ > 0;
  keep_armed_ = retain_graph;
  reached_ = false;
  in_backward_ = true;
}

void Arming::finish_backward() {
  in_backward_ = false;
  if (!reached_) return;
  triggered_ = false;
  if (!keep_armed_ && armed_ > 0) --armed_;
}

void Arming::check(const std::string& parameter) const {
  if (!in_backward_) {
    throw UsageError("the gradient of '" + parameter +
                     "' was computed by loss.backward(); the ranks could "
                     "not synchronise it. Call accelerator.backward(loss).");
  }
  if (!armed_in_this_backward_) {
    throw UsageError(
        "the gradient of '" + parameter +
        "' was computed, but the prepared model did not run "
        "forward: the module was called behind its back. Call the object that prepare() "
        "returned, model(x) or model.forward(x), not the original module.");
  }
  reached_ = true;
}

}  // namespace accelerate::detail
