#include "accelerate/comm/c10d_pending.h"

#include <sstream>
#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {

std::string Sentence::text() const {
  if (!has_tensor) return name;
  std::ostringstream text;
  text << name << " of " << c10::toString(dtype) << at::IntArrayRef(sizes);
  return text.str();
}

C10dPending::C10dPending(c10::intrusive_ptr<c10d::Work> work, Sentence what, Waiting waiting,
                         std::shared_ptr<GroupDiagnosis> diagnosis)
    : work_(std::move(work)),
      what_(std::move(what)),
      waiting_(waiting),
      diagnosis_(std::move(diagnosis)) {}

void C10dPending::wait() {
  if (diagnosis_->aborted()) diagnosis_->throw_if_aborted(what_.text());
  if (waiting_.orders_streams) return order_streams();
  detail::Waiting waiting([this] { return what_.text(); }, *diagnosis_);
  // Gloo's send and receive give up for good when a wait ends early, so they get one long wait.
  while (!finished_within(waiting_.point_to_point ? diagnosis_->timeout() : waiting.next_slice())) {
    diagnosis_->throw_if_aborted(what_.text());
    report_or_give_up(waiting);
  }
}

// The result of an operation that nobody waits for any more must not come after all.
void C10dPending::report_or_give_up(detail::Waiting& waiting) {
  try {
    waiting.report_or_throw(late_);
  } catch (const CommError&) {
    if (waiting_.names_late_ranks) work_->abort();
    throw;
  }
}

void C10dPending::order_streams() {
  try {
    work_->wait();
  } catch (const std::exception& error) {
    diagnosis_->throw_failure(what_.text(), error);
  }
}

bool C10dPending::finished_within(std::chrono::milliseconds slice) {
  try {
    return work_->wait(slice);
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    if (!waiting_.point_to_point && !work_->isCompleted()) {  // only this slice is over
      if (waiting_.names_late_ranks) late_ = error.what();
      return false;
    }
    if (work_->isCompleted() && !work_->exception()) return true;
    diagnosis_->throw_failure(what_.text(), error);
  }
}

}  // namespace accelerate::detail
