#include "accelerate/comm/shared_memory/call_engine.h"

#include <algorithm>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/signal_guards.h"
#include "accelerate/comm/shared_memory/kept_memory.h"
#include "accelerate/comm/shared_memory/process_fork.h"

namespace accelerate::detail {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// How often a wait checks whether its peers are alive.
constexpr std::chrono::nanoseconds kLook = 100ms;
// A thread sleeps on one counter only. If it must serve other calls too, it takes naps, which get
// longer while nothing comes.
constexpr std::chrono::nanoseconds kNap = 100us;
constexpr int kDoublings = 5;
constexpr int kNapsBetweenLooks = kLook / (kNap * (1 << kDoublings));

std::chrono::nanoseconds nap(int idle) {
  return kNap * (1 << std::min(idle, kDoublings));
}

// How long a call may go unserved before the helper takes over. How often the helper finds nothing
// to do before it sleeps until it is woken; to wake it costs a caller a system call.
constexpr std::chrono::nanoseconds kUnserved = 1ms;
constexpr int kIdleLooks = 5;

std::string text_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace

Engine::Engine(ControlBlock block, int rank, std::unique_ptr<GroupPeers> peers,
               std::chrono::nanoseconds spin)
    : peers_(std::move(peers)),
      group_{block, rank, *peers_},
      spin_(spin),
      mailbox_(group_),
      calls_(group_.own().posted.value()),
      rounds_(group_.own().drained.value()) {}

// --- calls ---
// Returns the lock for a new call. Checks for fork() first: in a forked child the mutex may be held
// by a thread of the parent.
Engine::Lock Engine::lock_for_call() {
  refuse_after_fork("a collective");
  Lock lock(mutex_);
  refuse_when_broken();
  return lock;
}

void Engine::refuse_when_broken() const {
  if (broken_) std::rethrow_exception(broken_);
}

void Engine::start(const std::shared_ptr<Operation>& operation) {
  Lock lock = lock_for_call();
  operations_.push_back(operation);
  serve(lock, *operation);
}

void Engine::start(const std::shared_ptr<Message>& message) {
  Lock lock = lock_for_call();
  mailbox_.add(message);
  serve(lock, *message);
}

void Engine::serve(Lock& lock, const Pending& call) {
  (void)advance(&call);
  if (!call.is_done()) wake_helper();
  run_followers(lock);
}

bool Engine::poll(Pending& call) {
  if (call.is_done() || forked()) return call.is_done();
  Lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) {
    (void)advance(&call);
    run_followers(lock);
  }
  return call.is_done();
}

std::optional<int> Engine::wait(Pending& call, std::chrono::milliseconds limit) {
  if (!call.is_done()) refuse_after_fork("the wait for a collective");
  Lock lock(mutex_);
  const auto end = Clock::now() + std::min<std::chrono::milliseconds>(limit, 24h * 365);
  auto next_look = Clock::now() + kLook;
  int idle = 0;
  while (!call.is_done()) {
    const auto blocked = advance(&call);
    run_followers(lock);
    if (call.is_done() || !blocked) continue;
    const auto sleep = longest_sleep(idle);
    int& waiting = sleep < kLook ? serving_ : dozing_;
    ++waiting;
    lock.unlock();
    const auto left = std::max<std::chrono::nanoseconds>(end - Clock::now(), 0ns);
    idle = watch(*blocked, spin_, std::min(sleep, left)) ? 0 : idle + 1;
    lock.lock();
    --waiting;
    const auto now = Clock::now();
    if (now >= end && !call.is_done()) return blocked->rank;
    if (now < next_look) continue;
    next_look = now + kLook;
    if (!blocked->counter->reached(blocked->target)) look_for_trouble(*blocked);
    run_followers(lock);
  }
  if (call.error()) std::rethrow_exception(call.error());
  return std::nullopt;
}

void Engine::when_done(Pending& call, std::function<void()> then) {
  refuse_after_fork("a callback of a collective");
  {
    const Lock lock(mutex_);
    if (!call.is_done()) {
      call.followers_.push_back(std::move(then));
      wake_helper();
      return;
    }
  }
  then();
}

void Engine::require_progress(const Blocked& blocked) {
  Lock lock = lock_for_call();
  look_for_trouble(blocked);
  run_followers(lock);
  refuse_when_broken();
}

void Engine::abort(const std::string& reason) noexcept {
  if (forked()) return;
  Lock lock(mutex_);
  fail(std::make_exception_ptr(CommError("the group was aborted")), Standing::gave_up, reason);
  run_followers(lock);
}

void Engine::leave() noexcept {
  if (std::exchange(has_left_, true)) return;
  if (forked()) {  // The group and the helper belong to the parent.
    (void)helper_.release();
    return;
  }
  stop_helper();
  Lock lock(mutex_);
  const bool idle = operations_.empty() && mailbox_.empty();
  fail(std::make_exception_ptr(CommError("the group ended while this operation was under way")),
       idle ? Standing::left : Standing::gave_up, idle ? "" : "it left with operations under way");
  run_followers(lock);
}

// --- progress ---
std::optional<Blocked> Engine::advance(const Pending* wanted) {
  if (broken_) return std::nullopt;
  try {
    const auto of_operations = advance_operations();
    if (mailbox_.empty()) return of_operations;
    std::vector<std::shared_ptr<Message>> done;
    const auto of_messages = mailbox_.advance(wanted, done);
    for (const auto& message : done) finish(*message, nullptr);
    const bool wants_operation = dynamic_cast<const Operation*>(wanted) != nullptr;
    return of_operations && (wants_operation || !of_messages) ? of_operations : of_messages;
  } catch (...) {
    const auto error = std::current_exception();
    fail(error, Standing::gave_up, text_of(error));
    return std::nullopt;
  }
}

std::optional<Blocked> Engine::advance_operations() {
  while (!operations_.empty()) {
    const auto operation = operations_.front();
    if (auto blocked = operation->advance(group_, calls_, rounds_)) return blocked;
    ++calls_;
    rounds_ += operation->rounds();
    operations_.pop_front();
    finish(*operation, nullptr);
  }
  return std::nullopt;
}

// Runs and destroys followers without the lock, because they may make calls.
void Engine::run_followers(Lock& lock) {
  while (!followers_.empty()) {
    auto followers = std::exchange(followers_, {});
    lock.unlock();
    for (const auto& follower : followers) follower();
    followers.clear();
    lock.lock();
  }
}

std::chrono::nanoseconds Engine::longest_sleep(int idle) const {
  const std::size_t served = mailbox_.size() + (operations_.empty() ? 0 : 1);
  return served > 1 ? nap(idle) : kLook;
}

// Whether a waiting thread makes progress for all calls. A wait that dozes on one counter does not
// notice calls that were made later.
bool Engine::is_served() const {
  return serving_ > 0 || (dozing_ > 0 && longest_sleep(0) == kLook);
}

void Engine::finish(Pending& call, const std::exception_ptr& error) {
  call.error_ = error;
  call.keep_.reset();
  std::move(call.followers_.begin(), call.followers_.end(), std::back_inserter(followers_));
  call.followers_.clear();
  call.done_.store(true, std::memory_order_release);
}

// --- failures ---
void Engine::look_for_trouble(const Blocked& blocked) {
  if (broken_) return;
  try {
    for (int peer = 0; peer < group_.size(); ++peer) {
      if (peer == group_.rank) continue;
      if (!operations_.empty()) operations_.front()->compare_with(group_, peer);
      look_at(peer, blocked);
    }
  } catch (...) {
    const auto error = std::current_exception();
    fail(error, Standing::gave_up, text_of(error));
  }
}

void Engine::look_at(int peer, const Blocked& blocked) const {
  // Reads the counter after the standing, because what the peer did before it left still counts.
  const auto is_awaited = [&] {
    return peer == blocked.rank && !blocked.counter->reached(blocked.target);
  };
  look_at(peer, is_awaited);
}

void Engine::look_at(int peer, const std::function<bool()>& is_awaited) const {
  // The order of these reads matters: what the peer did before it died or left still counts.
  const bool alive = peers_->is_alive(peer);
  const auto standing = group_.block.lines(peer).standing.load(std::memory_order_acquire);
  const std::string name = "rank " + std::to_string(peer);
  if (standing == Standing::gave_up) {
    throw CommError(name + " gave up: " + group_.block.reason(peer));
  }
  if (standing == Standing::left) {
    if (is_awaited()) throw CommError(name + " had left the group with a clean exit");
    return;
  }
  if (!alive) throw CommError(name + ", " + peers_->describe(peer));
}

void Engine::require_presence_of(const std::vector<int>& ranks) const {
  for (const int peer : ranks) {
    if (peer != group_.rank) look_at(peer, [] { return true; });
  }
}

std::string Engine::describe_awaited(int peer) const {
  return "rank " + std::to_string(peer) + ", " + peers_->describe(peer) + ", has not come so far";
}

void Engine::fail(const std::exception_ptr& error, Standing standing,
                  const std::string& reason) noexcept {
  if (!broken_) {
    broken_ = error;
    group_.block.leave(group_.rank, standing, reason);
  }
  for (const auto& operation : std::exchange(operations_, {})) {
    if (operation->is_in_place()) keep_forever(operation->keep_);
    finish(*operation, broken_);
  }
  for (const auto& message : mailbox_.take_all()) {
    if (message->is_in_place()) keep_forever(message->keep_);
    finish(*message, broken_);
  }
}

// --- the thread that takes over ---
void Engine::wake_helper() {
  if (helping_ || stopping_) return;
  helping_ = true;
  if (helper_) return wake_.notify_one();
  const BlockedSignals blocked;
  try {
    helper_ = std::make_unique<std::thread>([this] { help(); });
  } catch (const std::system_error&) {
    helping_ = false;  // No thread can be started: then only threads that wait make progress.
  }
}

void Engine::help() {
  Lock lock(mutex_);
  const auto rest = [&](std::chrono::nanoseconds time) {
    wake_.wait_for(lock, time, [this] { return stopping_; });
  };
  int empty_looks = 0;
  int idle = 0;
  while (!stopping_) {
    if (!helping_) {
      wake_.wait(lock, [this] { return helping_ || stopping_; });
      empty_looks = 0;
    }
    // Rests first, because its caller will probably wait for a new call soon.
    if (is_served() || empty_looks == 0) rest(kUnserved);
    if (stopping_ || is_served()) continue;
    const auto blocked = advance(nullptr);
    run_followers(lock);
    if (operations_.empty() && mailbox_.empty()) {
      helping_ = ++empty_looks < kIdleLooks;
      if (helping_) rest(kUnserved);
      continue;
    }
    empty_looks = 1;
    idle = blocked ? sleep_on(lock, *blocked, idle) : 0;
  }
}

// Sleeps on the counter of `blocked`, with a limit because a message may be sent meanwhile. Returns
// the number of sleeps in a row in which nothing has come.
int Engine::sleep_on(Lock& lock, const Blocked& blocked, int idle) {
  const auto limit = mailbox_.empty() ? nap(kDoublings) : nap(idle);
  lock.unlock();
  const bool reached = blocked.counter->sleep_until(blocked.target, limit);
  lock.lock();
  if (!reached && idle % kNapsBetweenLooks == kNapsBetweenLooks - 1) look_for_trouble(blocked);
  run_followers(lock);
  return reached ? 0 : idle + 1;
}

void Engine::stop_helper() {
  {
    const Lock lock(mutex_);
    stopping_ = true;
    wake_.notify_all();
  }
  if (!helper_) return;
  // The helper may sleep on any peer's counter.
  for (int peer = 0; peer < group_.size(); ++peer) {
    RankLines& lines = group_.block.lines(peer);
    for (Counter* counter :
         {&lines.posted, &lines.filled, &lines.reduced, &lines.drained, &lines.posted_messages}) {
      counter->wake();
    }
  }
  helper_->join();
}

}  // namespace accelerate::detail
