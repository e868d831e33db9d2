#include "accelerate/comm/shared_memory/backend.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/in_place_collectives.h"
#include "accelerate/comm/shared_memory/shared_group.h"
#include "accelerate/comm/shared_memory/staged_collectives.h"
#include "accelerate/comm/shared_memory/tensor_parts.h"

namespace accelerate::detail {
namespace {

using c10d::OpType;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class SharedMemoryWork final : public c10d::Work {
 public:
  SharedMemoryWork(std::shared_ptr<SharedGroup> group, std::shared_ptr<Pending> call, int rank,
                   OpType type, Tensors outputs, std::chrono::milliseconds timeout)
      : Work(rank, type),
        group_(std::move(group)),
        call_(std::move(call)),
        outputs_(std::move(outputs)),
        timeout_(timeout) {}

  bool isCompleted() override { return group_->engine().poll(*call_); }
  bool isSuccess() const override { return call_->is_done() && !call_->error(); }
  std::exception_ptr exception() const override {
    return call_->is_done() ? call_->error() : nullptr;
  }
  bool wait(std::chrono::milliseconds timeout) override {
    const auto limit = timeout == kNoTimeout ? timeout_ : timeout;
    const auto awaited = group_->engine().wait(*call_, limit);
    if (!awaited) return true;
    late_ = group_->engine().describe_awaited(*awaited);
    throw CommError(late_);
  }
  void synchronize() override { (void)wait(kNoTimeout); }
  // Tells the peers that wait for the same rank which rank is late, before their timeouts are over.
  void abort() override {
    group_->engine().abort("it gave up waiting for an operation" +
                           (late_.empty() ? "" : " within its timeout: " + late_));
  }
  Tensors result() override { return outputs_; }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    group_->engine().when_done(*call_, [call = call_, future, outputs = outputs_] {
      if (call->error()) {
        future->setError(call->error());
      } else {
        future->markCompleted(c10::IValue(outputs));
      }
    });
    return future;
  }

 private:
  std::shared_ptr<SharedGroup> group_;
  std::shared_ptr<Pending> call_;
  Tensors outputs_;
  std::chrono::milliseconds timeout_;
  std::string late_;  // The rank that had not come when the last wait was over, in words.
};

class SharedMemoryBackend final : public c10d::Backend {
 public:
  SharedMemoryBackend(std::shared_ptr<SharedGroup> group, int rank, int size,
                      std::chrono::milliseconds timeout)
      : Backend(rank, size), group_(std::move(group)), timeout_(timeout) {}
  ~SharedMemoryBackend() override { group_->engine().leave(); }

  const std::string getBackendName() const override { return "shared_memory"; }
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  void abort() override { group_->engine().abort("it gave up"); }
  void shutdown() override { group_->engine().leave(); }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    const at::Tensor tensor = only(tensors);
    const Part part = part_of(tensor);
    const Reduction reduction = reduction_of(tensor, options.reduceOp);
    return start(OpType::ALLREDUCE, call_of(CallKind::all_reduce, tensor, reduction.op), kEveryone,
                 {tensor}, {tensor}, [seat = seat(), part, reduction](const Addresses& in_place) {
                   return in_place.empty()
                              ? staged_all_reduce(seat, part, reduction)
                              : in_place_all_reduce(seat, in_place, part.bytes, reduction);
                 });
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    const at::Tensor tensor = only(tensors);
    const Part part = part_of(tensor);
    const Reduction reduction = reduction_of(tensor, options.reduceOp);
    const int root = checked_rank(options.rootRank);
    return start(OpType::REDUCE, call_of(CallKind::reduce, tensor, reduction.op, root), kNobody,
                 {tensor}, {tensor}, [seat = seat(), part, reduction, root](const Addresses&) {
                   return staged_reduce(seat, part, reduction, root);
                 });
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    check_whole(output, input);
    const Part part = part_of(output);
    const Reduction reduction = reduction_of(output, options.reduceOp);
    return start(OpType::REDUCE_SCATTER, call_of(CallKind::reduce_scatter, input, reduction.op),
                 kEveryone, {output}, {input},
                 [seat = seat(), part, inputs = parts_of(input, size_),
                  reduction](const Addresses& in_place) {
                   return in_place.empty()
                              ? staged_reduce_scatter(seat, part, inputs, reduction)
                              : in_place_reduce_scatter(seat, part, in_place, reduction);
                 });
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    const at::Tensor output = only(outputs);
    const Part part = part_of(output);
    const Reduction reduction = reduction_of(output, options.reduceOp);
    const Addresses addresses = addresses_of(only(inputs), output, size_);
    const std::size_t whole = part.bytes * addresses.size();
    Call call{CallKind::reduce_scatter, reduction.dtype, reduction.op, false, -1, whole, {}};
    if (lie_side_by_side(addresses, part.bytes)) locate(call, addresses.front(), whole);
    return start(OpType::REDUCE_SCATTER, call, kEveryone, {output}, only(inputs),
                 [seat = seat(), part, addresses, reduction](const Addresses& in_place) {
                   return in_place.empty()
                              ? staged_reduce_scatter(seat, part, addresses, reduction)
                              : in_place_reduce_scatter(seat, part, in_place, reduction);
                 });
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions&) override {
    check_whole(input, output);
    const Part part = part_of(input);
    return start(
        OpType::ALLGATHER, call_of(CallKind::all_gather, input), kEveryone, {output}, {input},
        [seat = seat(), outputs = parts_of(output, size_), part](const Addresses& in_place) {
          return in_place.empty() ? staged_all_gather(seat, outputs, part)
                                  : in_place_all_gather(seat, outputs, in_place, part.bytes);
        });
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions&) override {
    const at::Tensor input = only(inputs);
    const Part part = part_of(input);
    const Tensors results = only(outputs);
    return start(
        OpType::ALLGATHER, call_of(CallKind::all_gather, input), kEveryone, results, {input},
        [seat = seat(), addresses = addresses_of(results, input, size_),
         part](const Addresses& in_place) {
          return in_place.empty() ? staged_all_gather(seat, addresses, part)
                                  : in_place_all_gather(seat, addresses, in_place, part.bytes);
        });
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    const at::Tensor tensor = only(tensors);
    const Part part = part_of(tensor);
    const int root = checked_rank(options.rootRank);
    return start(OpType::BROADCAST, call_of(CallKind::broadcast, tensor, {}, root), root, {tensor},
                 {tensor}, [seat = seat(), part, root](const Addresses& in_place) {
                   return in_place.empty()
                              ? staged_broadcast(seat, part, root)
                              : in_place_broadcast(seat, part,
                                                   in_place[static_cast<std::size_t>(root)], root);
                 });
  }

  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    const at::Tensor input = only(inputs);
    const Part part = part_of(input);
    const int root = checked_rank(options.rootRank);
    const Tensors results = root == rank_ ? only(outputs) : Tensors{};
    const Addresses addresses = root == rank_ ? addresses_of(results, input, size_) : Addresses{};
    return start(OpType::GATHER, call_of(CallKind::gather, input, {}, root), kEveryone, results,
                 {input}, [seat = seat(), addresses, part, root](const Addresses& in_place) {
                   return in_place.empty()
                              ? staged_gather(seat, addresses, part, root)
                              : in_place_gather(seat, addresses, in_place, part.bytes, root);
                 });
  }

  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    const at::Tensor output = only(outputs);
    const Part part = part_of(output);
    const int root = checked_rank(options.rootRank);
    Tensors keep = root == rank_ ? only(inputs) : Tensors{};
    const Addresses addresses = root == rank_ ? addresses_of(keep, output, size_) : Addresses{};
    Call call{CallKind::scatter, output.scalar_type(), {}, false, root, part.bytes, {}};
    if (lie_side_by_side(addresses, part.bytes)) {
      locate(call, addresses.front(), part.bytes * addresses.size());
    }
    return start(OpType::SCATTER, call, root, {output}, std::move(keep),
                 [seat = seat(), addresses, part, root](const Addresses& in_place) {
                   return in_place.empty()
                              ? staged_scatter(seat, part, addresses, root)
                              : in_place_scatter(seat, part,
                                                 in_place[static_cast<std::size_t>(root)], root);
                 });
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                        std::vector<int64_t>& input_rows, const c10d::AllToAllOptions&) override {
    const std::size_t bytes = checked(input).nbytes() / static_cast<std::size_t>(size_);
    if (!output_rows.empty() || !input_rows.empty() || input.numel() % size_ != 0 ||
        checked(output).nbytes() != input.nbytes()) {
      throw UsageError("all_to_all needs an input and an output of the same size, which the " +
                       std::to_string(size_) + " ranks divide without remainder");
    }
    Call call = call_of(CallKind::all_to_all, input);
    return start(OpType::ALLTOALL_BASE, call, kEveryone, {output}, {input},
                 [seat = seat(), output, input, bytes](const Addresses& in_place) {
                   if (!in_place.empty()) {
                     return in_place_all_to_all(seat, data_of(output), in_place, bytes);
                   }
                   return staged_all_to_all(seat, equal_parts(output, seat.size),
                                            equal_parts(input, seat.size), bytes);
                 });
  }

  WorkPtr barrier(const c10d::BarrierOptions&) override {
    return start(OpType::BARRIER, Call{}, kNobody, {}, {},
                 [](const Addresses&) { return staged_barrier(); });
  }

  WorkPtr send(Tensors& tensors, int destination, int tag) override {
    const at::Tensor tensor = only(tensors);
    const Part part = part_of(tensor);
    return start_message(OpType::SEND,
                         {Message::Way::send, checked_other(destination), tag, tensor.scalar_type(),
                          part, where(part.data, part.bytes)},
                         tensor);
  }

  WorkPtr recv(Tensors& tensors, int source, int tag) override {
    const at::Tensor tensor = only(tensors);
    return start_message(
        OpType::RECV,
        {Message::Way::receive, checked_other(source), tag, tensor.scalar_type(), part_of(tensor)},
        tensor);
  }

 private:
  [[nodiscard]] Seat seat() const { return {rank_, size_, group_->block().slot_bytes()}; }

  [[nodiscard]] int checked_rank(std::int64_t rank) const {
    if (rank >= 0 && rank < size_) return static_cast<int>(rank);
    throw UsageError("rank " + std::to_string(rank) + " was named in a group of " +
                     std::to_string(size_) + " ranks");
  }
  [[nodiscard]] int checked_other(int rank) const {
    if (checked_rank(rank) != rank_) return rank;
    throw UsageError("rank " + std::to_string(rank) + " cannot send to or receive from itself");
  }
  void check_whole(const at::Tensor& part, const at::Tensor& whole) const {
    if (checked(whole).numel() == checked(part).numel() * size_ &&
        whole.scalar_type() == part.scalar_type()) {
      return;
    }
    throw UsageError("the whole must be " + std::to_string(size_) + " parts of the same dtype");
  }

  [[nodiscard]] std::optional<SharedExtent> where(const void* data, std::size_t bytes) const {
    if (bytes < Operation::kInPlaceFrom) return std::nullopt;
    return group_->peers().arena()->find(data, bytes);
  }
  // Notes in `call` where its memory lies, if it is in the arena.
  void locate(Call& call, const void* data, std::size_t bytes) const {
    const auto extent = where(data, bytes);
    call.in_arena = extent.has_value();
    if (extent) call.where = *extent;
  }

  // `read` is the tensor that peers would read in place.
  [[nodiscard]] Call call_of(CallKind kind, const at::Tensor& read, ReduceOp op = {},
                             int root = -1) const {
    Call call{kind, read.scalar_type(), op, false, root, read.nbytes(), {}};
    locate(call, read.data_ptr(), read.nbytes());
    return call;
  }

  WorkPtr start(OpType type, const Call& call, int read_in_place, Tensors results, Tensors inputs,
                Operation::Make make) {
    auto keep = std::make_shared<std::pair<Tensors, Tensors>>(results, std::move(inputs));
    auto operation = std::make_shared<Operation>(call, read_in_place, std::move(make), keep);
    group_->engine().start(operation);
    return c10::make_intrusive<SharedMemoryWork>(group_, operation, rank_, type, std::move(results),
                                                 timeout_);
  }

  WorkPtr start_message(OpType type, Message::Letter letter, const at::Tensor& tensor) {
    auto message = std::make_shared<Message>(letter, std::make_shared<at::Tensor>(tensor));
    group_->engine().start(message);
    return c10::make_intrusive<SharedMemoryWork>(group_, message, rank_, type, Tensors{tensor},
                                                 timeout_);
  }

  std::shared_ptr<SharedGroup> group_;
  std::chrono::milliseconds timeout_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_shared_memory_backend(const Founding& founding,
                                                             std::shared_ptr<SharedGroup> group) {
  return c10::make_intrusive<SharedMemoryBackend>(std::move(group), founding.rank, founding.size,
                                                  founding.times.timeout);
}

at::Tensor empty_for_peers(LocalPeers& peers, at::IntArrayRef sizes,
                           const at::TensorOptions& options) {
  const std::size_t bytes = static_cast<std::size_t>(c10::multiply_integers(sizes)) *
                            c10::elementSize(at::typeMetaToScalarType(options.dtype()));
  if (!options.device().is_cpu() || bytes < Operation::kInPlaceFrom) {
    return at::empty(sizes, options);
  }
  return peers.arena()->empty(sizes, options);
}

}  // namespace accelerate::detail
