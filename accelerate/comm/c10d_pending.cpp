#include "accelerate/comm/c10d_pending.h"

#include <utility>

#include "accelerate/base/error.h"

namespace accelerate::detail {

C10dPending::C10dPending(c10::intrusive_ptr<c10d::Work> work, Sentence what, Waiting waiting,
                         std::shared_ptr<GroupDiagnosis> diagnosis)
    : work_(std::move(work)),
      what_(std::move(what)),
      waiting_(std::move(waiting)),
      diagnosis_(std::move(diagnosis)) {}

void C10dPending::wait() {
  if (diagnosis_->aborted()) diagnosis_->throw_if_aborted(what_.text());
  waiting_.ticket.waits();
  try {
    waiting_.orders_streams ? order_streams() : wait_in_slices();
  } catch (...) {
    waiting_.ticket.fails();
    throw;
  }
  waiting_.ticket.ends();
}

void C10dPending::wait_in_slices() {
  detail::Waiting waiting([this] { return what_.text(); }, *diagnosis_, waiting_.deadline);
  while (!finished_within(waiting)) {
    diagnosis_->throw_if_aborted(what_.text());
    report_or_give_up(waiting);
  }
}

// Aborts an operation whose wait has failed, so that its result does not arrive afterwards.
void C10dPending::report_or_give_up(detail::Waiting& waiting) {
  try {
    waiting.report_or_throw(late_, call());
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

CallInGroup C10dPending::call() const {
  return {what_.text(), waiting_.number, what_.peer, what_.bytes()};
}

bool C10dPending::finished_within(const detail::Waiting& waiting) {
  try {
    return work_->wait(waiting_.in_one_piece ? diagnosis_->timeout() : waiting.next_slice());
  } catch (const UsageError&) {
    throw;
  } catch (const std::exception& error) {
    if (!waiting_.in_one_piece && !work_->isCompleted()) {  // only this slice is over
      if (waiting_.names_late_ranks) late_ = error.what();
      return false;
    }
    if (work_->isCompleted() && !work_->exception()) return true;
    // Gloo measures its own timeout, from the beginning of the call.
    const bool is_late = first_line(error).find("Timed out") != std::string::npos;
    if (is_late || (waiting_.in_one_piece && waiting.is_over())) diagnosis_->throw_timeout(call());
    diagnosis_->throw_failure(call(), error);
  }
}

}  // namespace accelerate::detail
