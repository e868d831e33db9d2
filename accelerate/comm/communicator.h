// A group of ranks and its collectives. One interface; the engines are a group of one, shared
// memory within a host, c10d's Gloo across hosts, and NCCL. A group of one is a normal group:
// callers never ask whether they are distributed.
//
// Every operation is asynchronous: it returns a Work whose wait() makes the result visible. All
// ranks of a group must issue the same operations in the same order with the same sizes and dtypes.
// The nested operations of comm/operations.h check this. The operations here are on the gradient
// path and do not. Tensors are contiguous and live on the CPU. When a rank is lost, late or makes
// another call than its peers, they get a CommError within timeout().
#pragma once

#include <ATen/core/Tensor.h>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/comm/reduce_op.h"

namespace accelerate::detail {

// How long a rank has waited for its peers, for reports of where the time of a step goes.

/// Returns the seconds that the calling thread has spent in Work::wait() since the thread began.
/// Communication that overlaps other work does not count. Cost: two clock reads per wait.
[[nodiscard]] double seconds_waited();

}  // namespace accelerate::detail

namespace accelerate {

struct C10dConnection;
namespace detail {
class SharedGroup;
}

/// A collective under way. Copies of a Work share the collective. A default Work is finished.
class Work {
 public:
  /// The interface that an engine implements. Work calls wait() at most once.
  struct Pending {
    virtual ~Pending() = default;
    virtual void wait() = 0;
    [[nodiscard]] virtual bool is_completed() const = 0;
  };

  Work() = default;
  /// `then` runs on the waiting thread after `pending` succeeded (copies out, divides, …).
  explicit Work(std::unique_ptr<Pending> pending, std::function<void()> then = {});

  /// Blocks until the result may be read. Idempotent. Throws CommError; a second wait after a
  /// failure throws the same error again. While peers are late a line is logged every 5 s.
  void wait();
  [[nodiscard]] bool is_completed() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }
  /// "single", "shared_memory", "gloo" or "nccl".
  [[nodiscard]] virtual std::string_view backend() const = 0;
  /// The time limit of every wait.
  [[nodiscard]] virtual std::chrono::milliseconds timeout() const = 0;

  /// `tensor`, any shape, becomes the reduction over all ranks, in place. [collective]
  /// Mean divides after the sum. Throws UsageError for an operation that the dtype does not have:
  /// mean of integers and bool, min, max and product of complex numbers, and bitwise operations on
  /// anything but integers and bool.
  [[nodiscard]] virtual Work all_reduce(at::Tensor tensor, ReduceOp op) = 0;
  /// The `tensor` of rank `source` overwrites the `tensor` of every other rank. [collective]
  [[nodiscard]] virtual Work broadcast(at::Tensor tensor, int source) = 0;
  /// `output` (size() × input.numel() elements) becomes the inputs in rank order. [collective]
  [[nodiscard]] virtual Work all_gather(at::Tensor output, at::Tensor input) = 0;
  /// `output` becomes this rank's 1/size() of the reduction of `input` (size() × output.numel()
  /// elements). `output` may be a view of this rank's part of `input`; the other parts of `input`
  /// are then undefined. [collective]
  [[nodiscard]] virtual Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) = 0;
  /// As all_reduce, but only `destination` gets the result; `tensor` is unspecified on other ranks.
  /// [collective]
  [[nodiscard]] virtual Work reduce(at::Tensor tensor, int destination, ReduceOp op) = 0;
  /// On `destination`, `outputs` (size() tensors of the shape of `input`) become the inputs in rank
  /// order. On other ranks `outputs` is empty. [collective]
  [[nodiscard]] virtual Work gather(std::vector<at::Tensor> outputs, at::Tensor input,
                                    int destination) = 0;
  /// `output` becomes inputs[rank()] of rank `source`. On other ranks `inputs` is empty.
  /// [collective]
  [[nodiscard]] virtual Work scatter(at::Tensor output, std::vector<at::Tensor> inputs,
                                     int source) = 0;
  /// Sends part r of `input` (dim 0 in size() equal parts) to rank r; part r of `output` comes from
  /// rank r. [collective]
  [[nodiscard]] virtual Work all_to_all(at::Tensor output, at::Tensor input) = 0;
  /// Point to point. Messages between two ranks are matched by `tag`, then by order. Over Gloo a tag
  /// is 0 to 524287; other tags throw UsageError.
  [[nodiscard]] virtual Work send(at::Tensor tensor, int destination, int tag = 0) = 0;
  [[nodiscard]] virtual Work receive(at::Tensor tensor, int source, int tag = 0) = 0;
  /// Returns when every rank has arrived. [collective]
  virtual void barrier() = 0;

  /// Returns a tensor of any size and dtype with undefined contents. It lies in memory that this
  /// group's collectives use without a copy, so it suits gradient buckets and batches to be sent.
  /// Local. Throws CommError when no such memory is left.
  [[nodiscard]] virtual at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options);

  /// Returns a new group of the given `ranks` of this group, in the given order; nullptr on ranks
  /// that are not in it. [collective over all ranks of this group]
  [[nodiscard]] virtual std::shared_ptr<Communicator> split(const std::vector<int>& ranks) = 0;

  /// Whether the group performs a reduce-scatter as an all-reduce. The all-reduce works on a copy
  /// of the input, unless the output is this rank's part of the input. Local.
  [[nodiscard]] virtual bool reduces_before_scatter() const { return false; }

  /// Connects the group again after it was aborted, on all its ranks. Operations under way fail.
  /// Groups split off from it are aborted, and stay aborted. Does nothing for a group of one.
  /// [collective] Throws CommError. Cost: as for making the group; the memory of the old
  /// connections is not freed.
  virtual void renew() {}
  /// Returns how often the group was connected again. The same on all ranks. Local.
  [[nodiscard]] virtual int renewals() const { return 0; }
  /// Lets this group live on when the group that it was split off from is aborted. Without this
  /// call it is aborted too, so that nobody waits in it for a rank that has given up. Local.
  virtual void detach() {}
  /// Returns the memory that the ranks share; null where they share none. Local.
  [[nodiscard]] virtual std::shared_ptr<detail::SharedGroup> shared_group() const;
  /// Returns the engine and the store of the group, for tests that compare with c10d and for
  /// LibTorch APIs that want them; null for a group of one. Local.
  [[nodiscard]] virtual const C10dConnection* c10d() const { return nullptr; }

  /// Tells the peers why this rank gives up, and closes its connections. The CommErrors of the
  /// peers contain `reason`. No collective works afterwards. Local; never throws.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

/// Returns a group of one: every collective is a copy or does nothing.
[[nodiscard]] std::shared_ptr<Communicator> single_communicator();

}  // namespace accelerate
