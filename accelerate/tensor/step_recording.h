// Whether a step is being recorded, to be repeated later without the work that the CPU does in it
// (accelerate/accelerator/graphs). What decides by numbers that differ from step to step asks here.
#pragma once

#include <string>

namespace accelerate::detail {

/// While alive, the calling thread records a step.
class StepRecording {
 public:
  StepRecording();
  ~StepRecording();
  StepRecording(const StepRecording&) = delete;
  StepRecording& operator=(const StepRecording&) = delete;
};

/// Throws UsageError if the calling thread records a step. The message is "<what> inside a recorded
/// step: <why, and the cure>".
void refuse_in_recording(const std::string& what, const std::string& why);

}  // namespace accelerate::detail
