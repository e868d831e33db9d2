// Runs the calls of one rank: collectives in the order they were made, messages beside them, by
// whoever has time. start() makes what progress it can and returns; wait() makes the rest; and when
// nobody waits for a while, a sleeping thread takes over, so that a rank that is busy elsewhere
// does not keep its peers. Needs no LibTorch beyond dtypes, so that a thread sanitizer sees all of
// it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "accelerate/comm/shared_memory/mailbox.h"
#include "accelerate/comm/shared_memory/operation.h"

namespace accelerate::detail {

class Engine {
 public:
  /// `block` is the group's and outlives this; `rank` is this one's. A wait stays awake for `spin`
  /// before it sleeps: nothing where ranks share cores.
  Engine(ControlBlock block, int rank, std::unique_ptr<GroupPeers> peers,
         std::chrono::nanoseconds spin);
  ~Engine() { leave(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Never waits for a peer. Throws CommError when the group has failed, UsageError in a forked
  /// child.
  void start(const std::shared_ptr<Operation>& operation);
  void start(const std::shared_ptr<Message>& message);

  /// Waits at most `limit`. Returns nothing when `call` is done, else the rank that it waits for.
  /// Throws its error.
  std::optional<int> wait(Pending& call, std::chrono::milliseconds limit);
  /// Makes what progress there is. Returns whether `call` is done.
  bool poll(Pending& call);
  /// `then` runs, on any thread, when `call` is done; at once if it is. It may make calls, but not
  /// end the engine.
  void when_done(Pending& call, std::function<void()> then);

  /// For waits of other kinds: throws CommError when the rank that `blocked` names will never come,
  /// or the group has failed.
  void require_progress(const Blocked& blocked);

  /// Fails what is under way and what comes, here and, with `reason`, at the peers.
  void abort(const std::string& reason) noexcept;
  /// Throws CommError when one of `ranks` has given up, left or died.
  void require_presence_of(const std::vector<int>& ranks) const;
  /// A sentence about a rank that a wait has missed at its limit.
  [[nodiscard]] std::string describe_awaited(int peer) const;
  [[nodiscard]] GroupPeers& peers() { return *peers_; }
  /// The end of this rank's part in the group, which peers can tell from an abort when nothing is
  /// under way. No thread of the engine runs after it.
  void leave() noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  [[nodiscard]] Lock lock_for_call();
  void refuse_when_broken() const;
  void serve(Lock& lock, const Pending& call);
  std::optional<Blocked> advance(const Pending* wanted);
  std::optional<Blocked> advance_operations();
  [[nodiscard]] std::chrono::nanoseconds longest_sleep(int idle) const;
  [[nodiscard]] bool is_served() const;
  void run_followers(Lock& lock);
  void look_for_trouble(const Blocked& blocked);
  void look_at(int peer, const Blocked& blocked) const;
  void look_at(int peer, const std::function<bool()>& is_awaited) const;
  void finish(Pending& call, const std::exception_ptr& error);
  void fail(const std::exception_ptr& error, Standing standing, const std::string& reason) noexcept;

  void wake_helper();
  void help();
  int sleep_on(Lock& lock, const Blocked& blocked, int idle);
  void stop_helper();

  std::unique_ptr<GroupPeers> peers_;
  Group group_;
  std::chrono::nanoseconds spin_;

  std::mutex mutex_;
  std::deque<std::shared_ptr<Operation>> operations_;
  Mailbox mailbox_;
  std::uint32_t calls_;   // Operations that have ended, as `posted`.
  std::uint32_t rounds_;  // Their rounds, as `drained`.
  std::exception_ptr broken_;
  std::vector<std::function<void()>> followers_;  // Of calls that are done; run without the lock.
  int serving_ = 0;  // Waits that wake now and then for the other calls,
  int dozing_ = 0;   // and those that knew of none when they went to sleep.

  std::condition_variable wake_;
  std::unique_ptr<std::thread> helper_;
  bool helping_ = false;
  bool stopping_ = false;
  bool has_left_ = false;
};

}  // namespace accelerate::detail
