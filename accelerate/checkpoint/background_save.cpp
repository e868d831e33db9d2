#include "accelerate/checkpoint/background_save.h"

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/signal_guards.h"

namespace accelerate {
namespace {

void log_failure(const std::exception& error) {
  get_logger("accelerate.checkpoint")
      .error("a save in the background failed: " + describe(error), {.main_process_only = false});
}

void complete_on(Communicator& group, const BackgroundSave::Complete& complete) {
  try {
    complete(group);
  } catch (const CommError&) {
    throw_with_context<CheckpointError>(
        "the checkpoint that was being saved was given up: not all ranks took part to the end. "
        "The one before it is whole");
  }
}

}  // namespace

BackgroundSave::~BackgroundSave() {
  try {
    wait();
  } catch (const std::exception& error) {
    log_failure(error);
  }
}

void BackgroundSave::start(Communicator& ranks, Complete complete) {
  const auto& group = group_.beside(ranks);
  auto sigterm = std::make_unique<DeferredSigterm>();
  const BlockedSignals blocked;
  running_ =
      std::async(std::launch::async, [complete = std::move(complete), sigterm = std::move(sigterm),
                                      group, identity = process_identity()]() mutable {
        const ScopedProcessIdentity scope(std::move(identity));
        // Released here in any case: first the lock on the folder, then the signal.
        const auto ends_last = std::move(sigterm);
        const auto work = std::move(complete);
        complete_on(*group, work);
      });
}

void BackgroundSave::wait() {
  if (running_.valid()) running_.get();
}

void BackgroundSave::wait_before(const Communicator& ranks) {
  try {
    wait();
  } catch (const CheckpointError& error) {
    if (group_.is_beside(ranks)) throw;
    log_failure(error);
  }
}

void BackgroundSave::release(const Communicator& ranks) {
  staging_.release();  // A save that is under way holds its memory.
  wait_before(ranks);
}

}  // namespace accelerate
