#include "accelerate/tensor/step_recording.h"

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {
thread_local bool is_recording = false;
}  // namespace

StepRecording::StepRecording() {
  is_recording = true;
}

StepRecording::~StepRecording() {
  is_recording = false;
}

void refuse_in_recording(const std::string& what) {
  if (!is_recording) return;
  throw UsageError(what +
                   " inside a recorded step: every replay would repeat this number. Use a "
                   "loss that is a mean, or an input tensor of the step");
}

}  // namespace accelerate::detail
