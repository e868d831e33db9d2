// Finds a batch size that fits into memory by trying: the first one on the way down, or, with
// upward_trials, the largest one.
//
//   auto train = find_executable_batch_size(accelerator, [&](std::int64_t batch_size) {
//     Net net;                              // Everything that depends on the batch size,
//     auto loader = make_data_loader(...);  // and everything that an attempt may leave half done.
//     ...
//   }, {.starting_batch_size = 128});
//   train();
//
// All ranks use the same size: if one runs out of memory, all try again with a smaller size. A rank
// whose attempt fails first closes its connections to the group. A peer that waits for it inside a
// collective (a gradient all-reduce, say) then fails immediately instead of at the timeout. The
// ranks then meet, reconnect and continue, which costs some milliseconds per failed attempt.
//
// An attempt must be able to start from the beginning: make and prepare inside it everything that
// an earlier attempt may have changed. Models with SyncBatchNorm belong inside too, since their
// groups end with a failed attempt. Source: accelerate/utils/memory.py of Hugging Face.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/tensor/nested.h"

namespace accelerate {

struct BatchSizeOptions {
  std::int64_t starting_batch_size = 128;
  /// Returns the size to try after one that did not fit. It must be smaller; 0 ends the search.
  /// Default: nine tenths, rounded down: 128, 115, 103, 92, …
  std::function<std::int64_t(std::int64_t)> reduce_batch_size_fn = {};
  /// How many more sizes are tried after the first that fits, to find the largest: those halfway to
  /// the smallest that did not fit, or, as long as all fitted, twice the size. Each is a call of the
  /// function, so let it do a few steps only. Its last call has the size that is found. 0: none.
  int upward_trials = 0;
  /// No larger size is tried, such as the number of samples.
  std::int64_t max_batch_size = std::numeric_limits<std::int64_t>::max();
};

/// Whether `error`, or an error nested in it, says that memory ran out: c10::OutOfMemoryError,
/// std::bad_alloc, or a message of LibTorch's allocators, or of cuDNN when it finds no plan.
[[nodiscard]] bool should_reduce_batch_size(const std::exception& error);

namespace detail {
/// The search without the types of the callable.
class BatchSizeSearch {
 public:
  /// Throws UsageError for a size below 1, a maximum below the first size, or a negative number of
  /// trials. `communicator` must outlive the search.
  BatchSizeSearch(Communicator& communicator, BatchSizeOptions options);
  /// Searches on this process alone.
  explicit BatchSizeSearch(BatchSizeOptions options);

  /// Calls `attempt` with smaller and smaller sizes until it returns on all ranks, then with larger
  /// ones if the options say so. [collective]
  void run(const std::function<void(std::int64_t)>& attempt);
  [[nodiscard]] std::int64_t batch_size() const { return batch_size_; }

 private:
  struct Outcome;
  void start();
  [[nodiscard]] Outcome try_once(const std::function<void(std::int64_t)>& attempt);
  [[nodiscard]] bool settle(Communicator& meeting, const Outcome& mine);
  void shrink(Communicator& meeting, const std::function<void(std::int64_t)>& attempt);
  void look_upwards(Communicator& meeting, const std::function<void(std::int64_t)>& attempt);
  [[nodiscard]] std::int64_t larger_size() const;
  [[nodiscard]] std::int64_t next_size(std::int64_t size) const;
  [[noreturn]] void throw_nothing_fits() const;

  std::shared_ptr<Communicator> alone_;  // The group of one, if none was given.
  Communicator* communicator_;
  BatchSizeOptions options_;
  std::int64_t batch_size_ = 0;
  std::int64_t too_large_ = std::numeric_limits<std::int64_t>::max();  // The least that failed.
  bool looked_upwards_ = false;
  std::vector<std::int64_t> tried_;
  std::exception_ptr last_;  // Why this rank's last attempt failed.
};
}  // namespace detail

/// Wraps `fn`, which takes a batch size first and then the arguments of the call.
template <typename Fn>
class BatchSizeFinder {
 public:
  BatchSizeFinder(Fn fn, detail::BatchSizeSearch search)
      : fn_(std::move(fn)), search_(std::move(search)) {}

  /// Returns what `fn` returns for the size that is found: the first that fits on all ranks, or the
  /// largest within upward_trials. A later call begins with that size and looks no further up. [collective] Throws what `fn` throws unless memory ran out. Throws UsageError if
  /// not even one sample fits, CommError if `fn` failed on another rank or ranks began with
  /// different sizes.
  template <typename... Args>
  auto operator()(Args&&... args) {
    if constexpr (!std::invocable<Fn&, std::int64_t, Args&...>) {
      static_assert(detail::kNoType<Fn>,
                    "the function of find_executable_batch_size takes the batch size first, then "
                    "what the search is called with: [&](std::int64_t batch_size) { … }");
    } else if constexpr (std::is_void_v<std::invoke_result_t<Fn&, std::int64_t, Args&...>>) {
      search_.run([&](std::int64_t batch_size) { fn_(batch_size, args...); });
    } else {
      std::optional<std::invoke_result_t<Fn&, std::int64_t, Args&...>> result;
      search_.run([&](std::int64_t batch_size) {
        result.reset();
        result.emplace(fn_(batch_size, args...));
      });
      return std::move(*result);
    }
  }

  /// The size to try next; after a call, the size that fitted.
  [[nodiscard]] std::int64_t batch_size() const { return search_.batch_size(); }

 private:
  Fn fn_;
  detail::BatchSizeSearch search_;
};

/// Searches among the ranks of `group`, a Communicator or an Accelerator, which must outlive the
/// callable.
template <typename Group, typename Fn>
  requires requires(Group& group) { group.communicator(); } ||
           std::is_base_of_v<Communicator, Group>
[[nodiscard]] BatchSizeFinder<Fn> find_executable_batch_size(Group& group, Fn fn,
                                                             BatchSizeOptions options = {}) {
  if constexpr (std::is_base_of_v<Communicator, Group>) {
    return {std::move(fn), detail::BatchSizeSearch(group, std::move(options))};
  } else {
    return {std::move(fn), detail::BatchSizeSearch(group.communicator(), std::move(options))};
  }
}

/// Searches on this process alone. With several ranks, pass the Accelerator.
template <typename Fn>
[[nodiscard]] BatchSizeFinder<Fn> find_executable_batch_size(Fn fn, BatchSizeOptions options = {}) {
  return {std::move(fn), detail::BatchSizeSearch(std::move(options))};
}

}  // namespace accelerate
