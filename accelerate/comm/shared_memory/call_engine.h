// Runs the calls of one rank: collectives in the order in which they were made, and messages beside
// them. start() makes what progress it can and returns; wait() makes the rest. When nobody waits
// for a while, a helper thread takes over, so that a rank that is busy elsewhere does not delay its
// peers. Uses nothing of LibTorch but dtypes, so that ThreadSanitizer sees all of the code.
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
  /// `block` belongs to the group and outlives the engine; `rank` is this rank. A wait spins for
  /// `spin` before it sleeps; zero suits ranks that share cores.
  Engine(ControlBlock block, int rank, std::unique_ptr<GroupPeers> peers,
         std::chrono::nanoseconds spin);
  ~Engine() { leave(); }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Begins a call; never waits for a peer. Throws CommError when the group has failed, UsageError
  /// in a forked child.
  void start(const std::shared_ptr<Operation>& operation);
  void start(const std::shared_ptr<Message>& message);

  /// Waits for `call` at most `limit`. Returns nothing if `call` is done, else the rank that it
  /// waits for. Throws the error of `call`.
  std::optional<int> wait(Pending& call, std::chrono::milliseconds limit);
  /// Makes what progress is possible without waiting. Returns whether `call` is done.
  bool poll(Pending& call);
  /// Runs `then` on any thread when `call` is done; immediately if it is done already. `then` may
  /// make calls, but must not end the engine.
  void when_done(Pending& call, std::function<void()> then);

  /// To be called now and then by code that waits for a counter without wait(). Throws CommError
  /// when the rank that `blocked` names will never reach the target, or the group has failed.
  void require_progress(const Blocked& blocked);

  /// Fails all calls, those under way and later ones, on this rank and on the peers, which see
  /// `reason`.
  void abort(const std::string& reason) noexcept;
  /// Throws CommError when one of `ranks` has given up, left or died.
  void require_presence_of(const std::vector<int>& ranks) const;
  /// Returns a sentence about a rank that had not come when the limit of a wait was over.
  [[nodiscard]] std::string describe_awaited(int peer) const;
  [[nodiscard]] GroupPeers& peers() { return *peers_; }
  /// Ends this rank's part in the group. If no call is under way, peers see a clean exit, else an
  /// abort. No thread of the engine runs afterwards.
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
  std::uint32_t calls_;   // Operations that have ended; counted as in `posted`.
  std::uint32_t rounds_;  // Their rounds; counted as in `drained`.
  std::exception_ptr broken_;
  std::vector<std::function<void()>> followers_;  // Callbacks of calls that are done.
  int serving_ = 0;  // Waits that wake now and then to serve other calls.
  int dozing_ = 0;   // Waits that knew of no other calls when they went to sleep.

  std::condition_variable wake_;
  std::unique_ptr<std::thread> helper_;
  bool helping_ = false;
  bool stopping_ = false;
  bool has_left_ = false;
};

}  // namespace accelerate::detail
