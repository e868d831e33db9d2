#include "accelerate/comm/diagnosis.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/store_connection.h"

namespace accelerate::detail {
namespace {

std::vector<uint8_t> to_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

// A failing peer announces itself before it closes its connections; a crashed one never does.
constexpr std::chrono::milliseconds kAnnouncementDelay{20};
// A rank that ends because a peer gave up lets that peer end first, so that a launcher, which
// reports the first rank to fail, names the cause.
constexpr std::chrono::milliseconds kHeadStart{250};
constexpr std::chrono::milliseconds kPoll{2};
constexpr std::chrono::milliseconds kOfSlowRanks{30'000};  // And no more, lest one be dead.

constexpr const char* kSomebodyFailed = "accelerate/failed/somebody";

}  // namespace

std::string first_line(const std::exception& error) {
  const auto* c10_error = dynamic_cast<const c10::Error*>(&error);
  std::string text = c10_error != nullptr ? c10_error->what_without_backtrace() : error.what();
  text = text.substr(0, text.find('\n'));
  if (!text.empty() && text.front() == '[') {  // "[…/pair.cc:538] Read error …"
    const auto end = text.find("] ");
    if (end != std::string::npos && text.find(':') < end) text.erase(0, end + 2);
  }
  return text.substr(0, text.find(". "));  // what follows is advice for Gloo's developers
}

std::string format_duration(std::chrono::milliseconds duration) {
  if (duration.count() < 1000) return std::to_string(duration.count()) + " ms";
  return std::to_string(duration.count() / 1000) + " s";
}

GroupDiagnosis::GroupDiagnosis(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                               std::chrono::milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

std::string GroupDiagnosis::who() const {
  return "rank " + std::to_string(rank_) + " of " + std::to_string(size_);
}

bool GroupDiagnosis::has_store() const {
  auto innermost = store_;
  while (auto prefixed = c10::dynamic_intrusive_pointer_cast<c10d::PrefixStore>(innermost)) {
    innermost = prefixed->getUnderlyingStore();
  }
  const auto* store = dynamic_cast<const c10d::TCPStore*>(innermost.get());
  return store == nullptr || !host_has_left(store->getHost(), store->getPort());
}

std::string GroupDiagnosis::key(const char* kind, int rank) const {
  return std::string("accelerate/") + kind + "/" + std::to_string(rank);
}

std::vector<std::string> GroupDiagnosis::keys_of_all(const char* kind) const {
  std::vector<std::string> keys;
  for (int rank = 0; rank < size_; ++rank) keys.push_back(key(kind, rank));
  return keys;
}

std::string GroupDiagnosis::missing_ranks() {
  std::vector<std::string> missing;
  for (int rank = 0; rank < size_; ++rank) {
    if (!store_->check({key("joined", rank)})) missing.push_back(std::to_string(rank));
  }
  return join(missing, ", ");
}

void GroupDiagnosis::wait_for_everyone_to_join(const std::function<void()>& look) {
  const auto keys = keys_of_all("joined");
  Waiting waiting([] { return "joining the group"; }, *this);
  try {
    store_->set(key("joined", rank_), to_bytes("1"));
    // Asked again and again rather than waited for: a wait that ends early makes c10d print a
    // warning.
    while (!store_->check(keys)) {
      std::this_thread::sleep_for(kPoll);
      if (look) look();
      if (waiting.report_is_due()) {
        get_logger("accelerate.comm")
            .warning(who() + " waits for rank " + missing_ranks() + " to join",
                     {.main_process_only = false});
      }
    }
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw_failure("joining the group", error);
  }
}

void GroupDiagnosis::let_all_find_out() noexcept {
  const auto end = std::chrono::steady_clock::now() + std::min(timeout_, kOfSlowRanks);
  try {
    store_->set(key("found out", rank_), to_bytes("1"));
    if (rank_ != 0) return;
    const auto keys = keys_of_all("found out");
    while (!store_->check(keys) && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(kPoll);
    }
  } catch (...) {
    // What the caller is about to throw says more than a store that is gone.
  }
}

void GroupDiagnosis::say_goodbye() noexcept {
  try {
    if (has_store()) store_->set(key("goodbye", rank_), to_bytes("1"));
  } catch (...) {
    // The store's host has left already; it knows how we ended by our exit code.
  }
}

void GroupDiagnosis::throw_if_aborted(const std::string& what) const {
  if (aborted_) {
    throw CommError(what + " on " + who() +
                    ": the group was aborted by an earlier failure; no collective works any more");
  }
}

void GroupDiagnosis::announce_failure(const std::string& reason) noexcept {
  aborted_ = true;
  try {
    if (!has_store()) return;
    store_->set(key("failed", rank_), to_bytes(reason));
    store_->set(kSomebodyFailed, to_bytes("1"));
  } catch (...) {
    // As above.
  }
}

void GroupDiagnosis::throw_if_a_peer_failed() {
  if (store_->check({kSomebodyFailed})) throw CommError("a peer failed");
}

std::string GroupDiagnosis::failure_of(int rank) {
  if (!store_->check({key("failed", rank)})) return "";
  const auto reason = store_->get(key("failed", rank));
  return " Rank " + std::to_string(rank) +
         " gave up: " + std::string(reason.begin(), reason.end()) + ".";
}

void GroupDiagnosis::throw_if_given_up(const std::vector<int>& ranks) {
  if (!store_->check({kSomebodyFailed})) return;
  for (const int rank : ranks) {
    const auto failure = failure_of(rank);
    if (failure.empty()) continue;
    if (rank != rank_) std::this_thread::sleep_for(kHeadStart);
    throw CommError("splitting a group off failed on " + who() + "." + failure);
  }
}

std::string GroupDiagnosis::peer_sentences() noexcept {
  std::string text;
  try {
    bool peer_gave_up = false;
    std::this_thread::sleep_for(kAnnouncementDelay);
    if (!has_store()) throw CommError("the store is gone");
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == rank_) continue;
      const std::string name = " Rank " + std::to_string(rank);
      if (const auto failure = failure_of(rank); !failure.empty()) {
        text += failure;
        peer_gave_up = true;
      } else if (store_->check({key("goodbye", rank)})) {
        text += name + " had left the group with a clean exit before this.";
      } else if (!store_->check({key("joined", rank)})) {
        text += name + " never joined.";
      }
    }
    if (peer_gave_up) std::this_thread::sleep_for(kHeadStart);
  } catch (...) {
    text +=
        " The store, which rank 0 or its launcher hosts, does not answer: it has ended or crashed.";
  }
  return text;
}

void GroupDiagnosis::throw_failure(const std::string& what, const std::exception& error) {
  const std::string known = peer_sentences();
  throw CommError(what + " failed on " + who() + ": " + first_line(error) + "." +
                  (known.empty()
                       ? " A peer has probably crashed: look for the first rank that failed."
                       : known));
}

void GroupDiagnosis::throw_timeout(const std::string& what, const std::string& known) {
  // A stopped rank 0 answers no questions.
  const std::string missing = known.empty() ? peer_sentences() : " It waits: " + known + ".";
  const std::string start = what + " on " + who() + " was not finished within the timeout of " +
                            format_duration(timeout_) + ".";
  if (missing.find("never joined") != std::string::npos) {
    throw CommError(start + missing +
                    " Were all ranks started, with the same MASTER_ADDR and MASTER_PORT?");
  }
  throw CommError(start + missing +
                  " Do all ranks call the same operations in the same order? A slow rank needs a "
                  "larger timeout (InitProcessGroupKwargs).");
}

Waiting::Waiting(std::function<std::string()> what, GroupDiagnosis& diagnosis)
    : what_(std::move(what)), diagnosis_(diagnosis) {}

std::chrono::milliseconds Waiting::next_slice() const {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
  return std::clamp(diagnosis_.timeout() - waited, std::chrono::milliseconds(1), kWaitSlice);
}

bool Waiting::report_is_due() {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
  if (waited >= diagnosis_.timeout()) diagnosis_.throw_timeout(what_());
  if (waited < next_report_) return false;
  next_report_ += kWaitSlice;
  return true;
}

void Waiting::report_or_throw(const std::string& known) {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
  if (waited >= diagnosis_.timeout()) diagnosis_.throw_timeout(what_(), known);
  if (waited < next_report_) return;
  next_report_ += kWaitSlice;
  get_logger("accelerate.comm")
      .warning(diagnosis_.who() + " has waited " + format_duration(waited) + " for its peers: " +
                   what_() + " (timeout " + format_duration(diagnosis_.timeout()) + ")",
               {.main_process_only = false});
}

}  // namespace accelerate::detail
