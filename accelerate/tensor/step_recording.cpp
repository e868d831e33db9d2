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

void refuse_in_recording(const std::string& what, const std::string& why) {
  if (is_recording) throw UsageError(what + " inside a recorded step: " + why);
}

}  // namespace accelerate::detail
