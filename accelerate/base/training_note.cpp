#include "accelerate/base/training_note.h"

#include <atomic>

namespace accelerate::detail {
namespace {

std::atomic<bool> training = false;

}  // namespace

void note_training() {
  training = true;
}

bool is_training() {
  return training;
}

}  // namespace accelerate::detail
