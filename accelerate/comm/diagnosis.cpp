#include "accelerate/comm/diagnosis.h"

#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/comm/sealed_store.h"
#include "accelerate/comm/store_connection.h"

namespace accelerate::detail {
namespace {

std::vector<uint8_t> to_bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

// A peer that fails announces it before it closes its connections; a peer that crashes never does.
constexpr std::chrono::milliseconds kAnnouncementDelay{20};
// A rank that fails because a peer gave up waits this long, so that the peer ends first. The
// launcher reports the first rank to fail, which is then the one with the cause.
constexpr std::chrono::milliseconds kHeadStart{250};
constexpr std::chrono::milliseconds kPoll{2};
constexpr std::chrono::milliseconds kOfSlowRanks{30'000};  // Limited, because a rank may be dead.

constexpr const char* kSomebodyFailed = "accelerate/failed/somebody";

// Whether Gloo or the system reports a lost connection. Other errors say nothing about a peer.
bool is_about_a_connection(const std::string& reason) {
  for (const char* sign : {"onnection closed", "onnection reset", "onnection refused", "roken pipe",
                           "Read error", "Write error", "reset by peer", "closed by peer"}) {
    if (reason.find(sign) != std::string::npos) return true;
  }
  return false;
}

constexpr const char* kSameOrder = "Do all ranks call the same operations in the same order?";
constexpr const char* kGaveUpWaiting = " gave up waiting in ";
// If rank 0 hosts the store, each question would last as long as the timeout.
constexpr const char* kNotAsked =
    " The store was not asked about the peers, because rank 0, which may host it, is stopped.";
constexpr const char* kNoStore =
    " The store, which rank 0 or its launcher hosts, does not answer: it has ended, has crashed or "
    "is stopped.";

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

GroupDiagnosis::GroupDiagnosis(c10::intrusive_ptr<c10d::Store> store, int rank, int size,
                               std::chrono::milliseconds timeout)
    : store_(std::move(store)), rank_(rank), size_(size), timeout_(timeout) {}

std::string GroupDiagnosis::who() const {
  return "rank " + std::to_string(rank_) + " of " + std::to_string(size_);
}

bool GroupDiagnosis::has_store() const {
  const auto* store = dynamic_cast<const c10d::TCPStore*>(&innermost(store_));
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
    // The store is gone, but the error that the caller is about to throw says more.
  }
}

void GroupDiagnosis::say_goodbye() noexcept {
  try {
    if (has_store()) store_->set(key("goodbye", rank_), to_bytes("1"));
  } catch (...) {
    // The store's host has left already. The launcher knows from our exit code how we ended.
  }
}

void GroupDiagnosis::throw_if_aborted(const std::string& what) const {
  if (aborted_) {
    throw CommError(
        what + " on " + who() +
            ": the group was aborted by an earlier failure; no collective works any more",
        error_name::kRankLost);
  }
}

void GroupDiagnosis::announce_failure(const std::string& reason) noexcept {
  aborted_ = true;
  try {
    if (!has_store()) return;
    store_->set(key("failed", rank_), to_bytes(reason));
    store_->set(kSomebodyFailed, to_bytes("1"));
  } catch (...) {
    // The store's host has left already, so nobody can read the reason.
  }
}

void GroupDiagnosis::throw_if_a_peer_failed() {
  if (store_->check({kSomebodyFailed})) throw CommError("a peer failed");
}

std::string GroupDiagnosis::failure_of(int rank) {
  if (!store_->check({key("failed", rank)})) return "";
  return " Rank " + std::to_string(rank) +
         " gave up: " + untrusted_text(store_->get(key("failed", rank))) + ".";
}

void GroupDiagnosis::throw_if_given_up(const std::vector<int>& ranks) {
  if (!store_->check({kSomebodyFailed})) return;
  for (const int rank : ranks) {
    const auto failure = failure_of(rank);
    if (failure.empty()) continue;
    if (rank != rank_) std::this_thread::sleep_for(kHeadStart);
    throw CommError("splitting a group off failed on " + who() + "." + failure,
                    error_name::kRankLost);
  }
}

std::string GroupDiagnosis::peer_sentences() noexcept {
  std::string text;
  try {
    if (is_stopped(0)) {
      return lost_processes() + kNotAsked;
    }
    bool peer_gave_up = false;
    std::this_thread::sleep_for(kAnnouncementDelay);
    if (!has_store()) return text + lost_processes() + kNoStore;
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
      } else if (store_->check({key("timed out", rank)})) {
        text += name + kGaveUpWaiting + untrusted_text(store_->get(key("timed out", rank))) + ".";
      }
    }
    if (peer_gave_up) std::this_thread::sleep_for(kHeadStart);
  } catch (const CommError& error) {  // The store holds a value that no rank wrote.
    text += std::string(" What became of the peers is not known: ") + error.what() + ".";
  } catch (...) {
    text += lost_processes() + kNoStore;
  }
  return text;
}

void GroupDiagnosis::leave_note(const char* kind, const std::string& text) noexcept {
  try {
    if (has_store()) store_->set(key(kind, rank_), to_bytes(text));
  } catch (...) {
    // The store is gone, so no peer could read the note either.
  }
}

void GroupDiagnosis::say_waiting(const CallInGroup& call) noexcept {
  leave_note("waits",
             std::to_string(call.number) + " " + std::to_string(call.bytes) + " " + call.what);
}

std::optional<CallInGroup> GroupDiagnosis::call_of(int rank) {
  if (!store_->check({key("waits", rank)})) return std::nullopt;
  std::istringstream note(untrusted_text(store_->get(key("waits", rank))));
  CallInGroup call;
  note >> call.number >> call.bytes;
  std::getline(note >> std::ws, call.what);
  return call;
}

void GroupDiagnosis::throw_if_next_rank_waits_elsewhere(const CallInGroup& call) {
  const int next = (rank_ + 1) % size_;
  std::optional<CallInGroup> theirs;
  try {
    if (!is_stopped(0) && has_store()) theirs = call_of(next);
  } catch (const std::exception&) {
    return;  // What happened to the store is said at the timeout.
  }
  if (!theirs || theirs->number != call.number || theirs->bytes == call.bytes) return;
  leave_note("timed out", call.what);
  throw CommError(call.what + " on " + who() + " cannot end: " + name_of(next) + " waits in " +
                      theirs->what + " instead. " + kSameOrder,
                  error_name::kDifferentCollectives);
}

bool GroupDiagnosis::is_stopped(int rank) const {
  const auto card = cards_.find(rank);
  return card != cards_.end() && describe_process(card->second).ends_with(", which is stopped");
}

std::string GroupDiagnosis::lost_processes() const {
  std::string text;
  for (const auto& [rank, card] : cards_) {
    const std::string process = describe_process(card);
    if (process.find(", which ") == std::string::npos) continue;
    text += " Rank " + std::to_string(rank) + " is " + process + ".";
  }
  return text;
}

std::string GroupDiagnosis::attendance_of(int rank, const CallInGroup& call) {
  const std::string late = " It waits for " + name_of(rank);
  if (call.peer >= 0) return late + ".";
  const auto theirs = call_of(rank);
  if (!theirs || theirs->number < call.number) return late + ", which is not known to be in it.";
  if (theirs->number == call.number && theirs->what == call.what) return "";
  return " R" + name_of(rank).substr(1) + " waits in " + theirs->what + " instead.";
}

std::string GroupDiagnosis::attendance(const CallInGroup& call) noexcept {
  std::string text;
  try {
    for (int rank = 0; rank < size_; ++rank) {
      const bool is_meant = call.peer < 0 ? rank != rank_ : rank == call.peer;
      if (is_meant) text += attendance_of(rank, call);
    }
  } catch (...) {
    text += kNoStore;
  }
  return text;
}

void GroupDiagnosis::throw_failure(const std::string& what, const std::exception& error) {
  throw_failed(what, error, peer_sentences());
}

// A peer that times out closes its connections. We then see a lost connection, though both of us
// waited for the same late rank.
void GroupDiagnosis::throw_failure(const CallInGroup& call, const std::exception& error) {
  std::string known = peer_sentences();
  if (known.find(kGaveUpWaiting) != std::string::npos) known += attendance(call);
  throw_failed(call.what, error, std::move(known));
}

void GroupDiagnosis::throw_failed(const std::string& what, const std::exception& error,
                                  std::string known) const {
  const std::string reason = first_line(error);
  if (known.empty() && is_about_a_connection(reason)) {
    known = lost_processes();
    if (known.empty()) {
      known =
          " The connection to a peer is closed, and no peer has said why: look for the first rank "
          "that ended.";
    }
  }
  // What this rank found out itself says more than that a peer is lost.
  const auto* ours = dynamic_cast<const Error*>(&error);
  ErrorName name = ours != nullptr ? ours->situation() : ErrorName();
  if (name.text().empty() && !known.empty()) name = error_name::kRankLost;
  throw CommError(what + " failed on " + who() + ": " + reason + "." + known, name);
}

// Does not ask a store twice when it is silent: each query lasts as long as the timeout.
void GroupDiagnosis::throw_timeout(const CallInGroup& call) {
  say_waiting(call);
  leave_note("timed out", call.what);  // Peers that lose their connection to us find out why.
  const std::string known = peer_sentences();
  throw_late(
      call.what,
      known + (known.ends_with(kNoStore) || known.ends_with(kNotAsked) ? "" : attendance(call)));
}

void GroupDiagnosis::throw_timeout(const std::string& what, const std::string& known) {
  // With `known` the store is not asked: its host, rank 0, may be stopped and not answer.
  if (!known.empty()) throw_late(what, " It waits: " + known + ".");
  const std::string of_peers = peer_sentences();
  throw_late(what, of_peers.empty() ? lost_processes() : of_peers);
}

void GroupDiagnosis::throw_late(const std::string& what, const std::string& missing) const {
  const std::string start = what + " on " + who() + " was not finished within the timeout of " +
                            format_duration(timeout_) + ".";
  if (missing.find("never joined") != std::string::npos) {
    throw CommError(
        start + missing + " Were all ranks started, with the same MASTER_ADDR and MASTER_PORT?",
        error_name::kRanksDoNotMeet);
  }
  throw CommError(start + missing + " " + kSameOrder +
                      " A slow rank needs a larger timeout (InitProcessGroupKwargs).",
                  error_name::kRankLate);
}

Waiting::Waiting(std::function<std::string()> what, GroupDiagnosis& diagnosis,
                 const std::optional<Deadline>& deadline)
    : what_(std::move(what)),
      diagnosis_(diagnosis),
      deadline_(deadline.value_or(Deadline(diagnosis.timeout()))),
      next_report_(deadline_.waited() + kWaitSlice) {}

// The first slice is at most a quarter of the timeout. So this rank says that it waits well before
// the timeout of its peers.
std::chrono::milliseconds Waiting::next_slice() const {
  constexpr std::chrono::milliseconds kShortest{1};
  const auto longest =
      is_known_to_wait_ ? kWaitSlice : std::min(kWaitSlice, diagnosis_.timeout() / 4);
  return std::clamp(deadline_.left(), kShortest, std::max(kShortest, longest));
}

bool Waiting::is_over() const {
  return deadline_.is_over();
}

bool Waiting::report_is_due() {
  if (is_over()) diagnosis_.throw_timeout(what_());
  if (deadline_.waited() < next_report_) return false;
  next_report_ += kWaitSlice;
  return true;
}

void Waiting::report_or_throw(const std::string& known, const CallInGroup& call) {
  const auto waited = deadline_.waited();
  if (is_over() && known.empty()) diagnosis_.throw_timeout(call);
  if (is_over()) diagnosis_.throw_timeout(call.what, known);
  if (!is_known_to_wait_ && known.empty()) diagnosis_.say_waiting(call);
  if (is_known_to_wait_ && known.empty() && call.number > 0)
    diagnosis_.throw_if_next_rank_waits_elsewhere(call);
  is_known_to_wait_ = true;
  if (waited < next_report_) return;
  next_report_ += kWaitSlice;
  get_logger("accelerate.comm")
      .warning(diagnosis_.who() + " has waited " + format_duration(waited) + " for its peers: " +
                   what_() + " (timeout " + format_duration(diagnosis_.timeout()) + ")",
               {.main_process_only = false});
}

}  // namespace accelerate::detail
