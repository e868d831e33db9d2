#include "accelerate/parallel/gradients/arming.h"

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

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
                         "not synchronise it. Call accelerator.backward(loss).",
                     error_name::kNotPrepared);
  }
  if (!armed_in_this_backward_)
    throw UsageError(past_the_model(parameter), error_name::kNotPrepared);
  reached_ = true;
}

bool Arming::came_past_the_model() const {
  if (!in_backward_) return false;
  reached_ = true;
  return !armed_in_this_backward_;
}

std::string Arming::past_the_model(const std::string& parameter) {
  return "the gradient of '" + parameter +
         "' was computed, but the prepared model did not run forward: the module was called "
         "directly, past the prepared model, so without mixed precision and unnoticed by the other "
         "ranks, e.g. by model->forward(x) or net(x). `->` leads to the module that prepare() was "
         "given. Call what prepare() returned: model(x) or model.forward(x)";
}

}  // namespace accelerate::detail
