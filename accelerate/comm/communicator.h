// A group of ranks and its collectives. One interface; the engines are a group of one, shared
// memory within a host, c10d's Gloo across hosts, and NCCL. A group of one is a normal group:
// callers never ask whether they are distributed.
//
// Every operation is asynchronous: it returns a Work whose wait() makes the result visible. All
// ranks of a group must issue the same operations in the same order with the same sizes and dtypes;
// the nested operations of comm/operations.h check that, the ones here, on the gradient path, do
// not. Tensors are contiguous and live on the CPU. A rank that is lost, late or at odds with the
// others is a CommError within timeout().
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/comm/reduce_op.h"

namespace accelerate {

/// A collective under way. Copies share it. A default one is finished.
class Work {
 public:
  /// What an engine provides. wait() may be called once only; Work sees to that.
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
  /// Limit of every wait.
  [[nodiscard]] virtual std::chrono::milliseconds timeout() const = 0;

  /// `tensor`, any shape, becomes the reduction over all ranks, in place. [collective]
  /// Mean divides after the sum; integers round toward zero. Throws UsageError for what has no
  /// meaning: min, max, product of complex numbers, bits of anything but integers and bool.
  [[nodiscard]] virtual Work all_reduce(at::Tensor tensor, ReduceOp op) = 0;
  /// `tensor` of `source` overwrites everyone's. [collective]
  [[nodiscard]] virtual Work broadcast(at::Tensor tensor, int source) = 0;
  /// `output` (size() × input.numel() elements) becomes the inputs in rank order. [collective]
  [[nodiscard]] virtual Work all_gather(at::Tensor output, at::Tensor input) = 0;
  /// `output` becomes this rank's 1/size() of the reduction of `input` (size() × output.numel()
  /// elements), of which it may be that very part; other parts are undefined then. [collective]
  [[nodiscard]] virtual Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) = 0;
  /// As all_reduce, but only `destination` may read the result; the others' tensors are
  /// unspecified. [collective]
  [[nodiscard]] virtual Work reduce(at::Tensor tensor, int destination, ReduceOp op) = 0;
  /// On `destination`, `outputs` (size() tensors shaped as `input`) become the inputs in rank
  /// order; elsewhere `outputs` is empty. [collective]
  [[nodiscard]] virtual Work gather(std::vector<at::Tensor> outputs, at::Tensor input,
                                    int destination) = 0;
  /// `output` becomes inputs[rank()] of `source`; elsewhere `inputs` is empty. [collective]
  [[nodiscard]] virtual Work scatter(at::Tensor output, std::vector<at::Tensor> inputs,
                                     int source) = 0;
  /// Part r of `input` (dim 0 in size() equal parts) goes to rank r; part r of `output` comes from
  /// it. [collective]
  [[nodiscard]] virtual Work all_to_all(at::Tensor output, at::Tensor input) = 0;
  /// Point to point; messages between two ranks match by `tag` and order.
  [[nodiscard]] virtual Work send(at::Tensor tensor, int destination, int tag = 0) = 0;
  [[nodiscard]] virtual Work receive(at::Tensor tensor, int source, int tag = 0) = 0;
  /// Returns when every rank has arrived. [collective]
  virtual void barrier() = 0;

  /// A tensor of any size and dtype, its contents undefined, in memory that this group's
  /// collectives use where it is instead of copying it: gradient buckets, batches that travel.
  /// Local. Throws CommError when there is no such memory left.
  [[nodiscard]] virtual at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options);

  /// A group of `ranks` of this one, in that order; nullptr on ranks that are not in it.
  /// [collective over all ranks of this group]
  [[nodiscard]] virtual std::shared_ptr<Communicator> split(const std::vector<int>& ranks) = 0;

  /// Tells the peers why this rank gives up, so that their CommError can say it, and closes its
  /// connections. No collective works afterwards. Local; never throws.
  virtual void abort(const std::string& reason) noexcept = 0;

 protected:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}

 private:
  int rank_;
  int size_;
};

/// A group of one: every collective is a copy or nothing.
[[nodiscard]] std::shared_ptr<Communicator> single_communicator();

}  // namespace accelerate
