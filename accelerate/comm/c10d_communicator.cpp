#include "accelerate/comm/c10d_communicator.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <atomic>
#include <exception>
#include <optional>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/c10d_pending.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/shared_memory/process_fork.h"
#include "accelerate/comm/shared_memory/shared_group.h"
#include "accelerate/comm/tensor_checks.h"

namespace accelerate {
namespace {

using detail::C10dPending;
using detail::check_peer;
using detail::GroupDiagnosis;
using detail::Sentence;

class C10dCommunicator final : public Communicator {
 public:
  explicit C10dCommunicator(C10dGroup group)
      : Communicator(group.rank, group.size), group_(std::move(group)), first_store_(group_.store) {
    connect();
    name_ = connection_.backend->getBackendName();
  }

  ~C10dCommunicator() override {
    if (detail::forked()) {  // The connections and the threads behind them are the parent's.
      (void)connection_.backend.release();
      (void)connection_.store.release();
      (void)group_.store.release();
      return;
    }
    if (std::uncaught_exceptions() > exceptions_at_start_) {
      abort("it left because of an exception");
    } else if (!diagnosis_->aborted()) {
      diagnosis_->say_goodbye();
    }
    if (diagnosis_->aborted()) let_engine_go();
  }

  std::string_view backend() const override { return name_; }
  std::chrono::milliseconds timeout() const override { return group_.times.timeout; }

  at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return group_.traits.empty ? group_.traits.empty(sizes, options)
                               : Communicator::empty(sizes, options);
  }

  Work all_reduce(at::Tensor tensor, ReduceOp op) override {
    auto staged = stage(tensor, op);
    return start_all_reduce(FlightKind::all_reduce, staged.tensor, op, std::move(staged.finish));
  }

  Work reduce(at::Tensor tensor, int destination, ReduceOp op) override {
    check_peer(destination, size());
    auto staged = stage(tensor, op);
    return start(
        FlightKind::reduce, staged.tensor,
        [&](std::vector<at::Tensor>& tensors) {
          c10d::ReduceOptions options;
          options.reduceOp = c10d_op(op);
          options.rootRank = destination;
          return connection_.backend->reduce(tensors, options);
        },
        destination == rank() ? std::move(staged.finish) : nullptr);
  }

  Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) override {
    detail::check_parts("reduce_scatter", output, input, size());
    if (group_.traits.scatters_by_all_reduce) return scatter_all_reduced(output, input, op);
    auto out = stage(output, op);
    auto in = stage(input, op);
    return start(
        FlightKind::reduce_scatter, in.tensor,
        [&](std::vector<at::Tensor>& tensors) {
          c10d::ReduceScatterOptions options;
          options.reduceOp = c10d_op(op);
          // Some engines want the first dimensions to agree; we ask only for equal numbers of
          // elements.
          at::Tensor part = out.tensor.view({-1}), whole = tensors[0].view({-1});
          return connection_.backend->_reduce_scatter_base(part, whole, options);
        },
        std::move(out.finish));
  }

  Work broadcast(at::Tensor tensor, int source) override {
    check_peer(source, size());
    return start(FlightKind::broadcast, as_bytes(tensor), [&](std::vector<at::Tensor>& tensors) {
      c10d::BroadcastOptions options;
      options.rootRank = source;
      return connection_.backend->broadcast(tensors, options);
    });
  }

  Work all_gather(at::Tensor output, at::Tensor input) override {
    detail::check_parts("all_gather", input, output, size());
    auto out = as_bytes(output);
    return start(FlightKind::all_gather, as_bytes(input), [&](std::vector<at::Tensor>& tensors) {
      return connection_.backend->_allgather_base(out, tensors[0], {});
    });
  }

  Work gather(std::vector<at::Tensor> outputs, at::Tensor input, int destination) override {
    check_peer(destination, size());
    std::vector<std::vector<at::Tensor>> parts;
    if (rank() == destination) parts.push_back(all_as_bytes(outputs));
    return start(FlightKind::gather, as_bytes(input), [&](std::vector<at::Tensor>& tensors) {
      c10d::GatherOptions options;
      options.rootRank = destination;
      return connection_.backend->gather(parts, tensors, options);
    });
  }

  Work scatter(at::Tensor output, std::vector<at::Tensor> inputs, int source) override {
    check_peer(source, size());
    std::vector<std::vector<at::Tensor>> parts;
    if (rank() == source) parts.push_back(all_as_bytes(inputs));
    return start(FlightKind::scatter, as_bytes(output), [&](std::vector<at::Tensor>& tensors) {
      c10d::ScatterOptions options;
      options.rootRank = source;
      return connection_.backend->scatter(tensors, parts, options);
    });
  }

  Work all_to_all(at::Tensor output, at::Tensor input) override {
    auto out = as_bytes(output);
    return start(FlightKind::all_to_all, as_bytes(input), [&](std::vector<at::Tensor>& tensors) {
      std::vector<int64_t> equal_parts;
      return connection_.backend->alltoall_base(out, tensors[0], equal_parts, equal_parts, {});
    });
  }

  Work send(at::Tensor tensor, int destination, int tag) override {
    check_peer(destination, size());
    return start_message(FlightKind::send, destination, as_bytes(tensor),
                         [&](std::vector<at::Tensor>& tensors) {
                           return connection_.backend->send(tensors, destination, tag);
                         });
  }

  Work receive(at::Tensor tensor, int source, int tag) override {
    check_peer(source, size());
    return start_message(FlightKind::receive, source, as_bytes(tensor),
                         [&](std::vector<at::Tensor>& tensors) {
                           return connection_.backend->recv(tensors, source, tag);
                         });
  }

  void barrier() override {
    diagnosis_->throw_if_aborted("barrier");
    group_.device.is_cpu() ? barrier_of_hosts(FlightKind::barrier) : barrier_of_devices();
  }

  std::shared_ptr<Communicator> split(const std::vector<int>& ranks) override {
    detail::check_members(ranks, size());
    detail::refuse_after_fork("split");
    diagnosis_->throw_if_aborted("split");
    C10dGroup sub = group_;
    sub.times = group_.times.timeout;
    const std::string name = "group" + std::to_string(splits_++) + "/";
    const auto mine = std::ranges::find(ranks, rank());
    if (mine == ranks.end()) return nullptr;
    sub.rank = static_cast<int>(mine - ranks.begin());
    sub.size = static_cast<int>(ranks.size());
    if (sub.size == 1) return single_communicator();
    sub.store = c10::make_intrusive<c10d::PrefixStore>(name, group_.store);
    sub.label = detail::label_of_part(group_.label, ranks, splits_ - 1);
    sub.look = [this, ranks] {
      group_.traits.knows_who_is_there ? connection_.shared->engine().require_presence_of(ranks)
                                       : diagnosis_->throw_if_given_up(ranks);
    };
    auto part = joined(std::move(sub));
    std::erase_if(parts_, [](const auto& weak) { return weak.expired(); });
    parts_.push_back(part);
    return part;
  }

  void abort(const std::string& reason) noexcept override {
    if (diagnosis_->aborted() || detail::forked()) return;
    diagnosis_->announce_failure(reason);
    try {
      end_engine(reason);
    } catch (const std::exception&) {
      // Nothing more can be done to close the connections.
    }
    for (const auto& weak : parts_) {
      if (const auto part = weak.lock(); part && !part->detached_) part->abort(reason);
    }
  }

  void detach() override { detached_ = true; }

  void renew() override {
    abort("the group is being connected again");
    let_engine_go();
    group_.store = c10::make_intrusive<c10d::PrefixStore>(
        "renewed" + std::to_string(renewals_++) + "/", first_store_);
    // Before the group was aborted, some ranks may have counted further than others.
    splits_ = 0;
    collectives_ = 0;
    group_.times = group_.times.timeout;
    connect();
  }

  int renewals() const override { return renewals_; }
  bool reduces_before_scatter() const override { return group_.traits.scatters_by_all_reduce; }
  std::shared_ptr<detail::SharedGroup> shared_group() const override { return connection_.shared; }
  const C10dConnection* c10d() const override { return &connection_; }

 private:
  // The destructors of Gloo and NCCL wait for operations that will never end, so an aborted engine
  // is leaked.
  void let_engine_go() {
    if (!group_.traits.ends_when_aborted) (void)connection_.backend.release();
    connection_ = {};
  }

  // Ends the engine. The engine of shared memory tells the peers why.
  void end_engine(const std::string& reason) {
    connection_.shared ? connection_.shared->engine().abort(reason) : connection_.backend->abort();
  }

  [[nodiscard]] std::shared_ptr<C10dCommunicator> joined(C10dGroup sub) {
    try {
      auto part = std::make_shared<C10dCommunicator>(std::move(sub));
      part->group_.look = nullptr;  // It uses this group, which may be gone when `part` is renewed.
      return part;
    } catch (const CommError& error) {
      // Tells the peers why: they would otherwise only see this rank leave.
      if (group_.traits.knows_who_is_there) end_engine(error.what());
      throw;
    }
  }

  void connect() {
    diagnosis_ = std::make_shared<GroupDiagnosis>(group_.store, group_.rank, group_.size,
                                                  group_.times.timeout);
    connection_ = detail::join_group(group_, diagnosis_);
    if (group_.device.is_cpu()) meet();
  }

  // Waits until all ranks are connected: a rank that left earlier would break the connections that
  // its peers are still making. An engine of devices connects in its first operation.
  void meet() {
    try {
      barrier_of_hosts(FlightKind::meeting, group_.times.meeting);
    } catch (const CommError& error) {
      abort(detail::first_line(error));
      let_engine_go();
      throw;
    }
  }

  void barrier_of_hosts(const Sentence& what, const std::optional<Deadline>& deadline = {}) {
    auto waiting = waiting_for(what);
    waiting.deadline = deadline;
    const auto barrier = run(what, [&] { return connection_.backend->barrier(); });
    C10dPending(barrier, what, std::move(waiting), diagnosis_).wait();
  }

  // The wait() of an engine that orders streams does not block the host; reading a result does.
  void barrier_of_devices() {
    const auto one = at::ones({1}, at::TensorOptions().dtype(at::kInt).device(group_.device));
    all_reduce(one, ReduceOp::sum).wait();
    (void)one.item<int>();
  }

  [[nodiscard]] c10d::ReduceOp c10d_op(ReduceOp op) const {
    return detail::c10d_op(op, group_.traits.has_mean);
  }
  [[nodiscard]] at::Tensor as_bytes(const at::Tensor& tensor) const {
    if (!group_.traits.moves_every_dtype) return detail::as_bytes(tensor, group_.device.type());
    detail::check_communicable(tensor, group_.device.type());
    return tensor;
  }
  [[nodiscard]] detail::Staged stage(const at::Tensor& tensor, ReduceOp op) const {
    return detail::stage_for_reduction(tensor, op, group_.traits.has_mean ? 1 : size(),
                                       group_.device.type());
  }

  [[nodiscard]] std::vector<at::Tensor> all_as_bytes(const std::vector<at::Tensor>& tensors) const {
    std::vector<at::Tensor> bytes;
    for (const auto& tensor : tensors) bytes.push_back(as_bytes(tensor));
    return bytes;
  }

  Work start_all_reduce(FlightKind what, const at::Tensor& tensor, ReduceOp op,
                        std::function<void()> finish) {
    return start(
        what, tensor,
        [&](std::vector<at::Tensor>& tensors) {
          c10d::AllreduceOptions options;
          options.reduceOp = c10d_op(op);
          return connection_.backend->allreduce(tensors, options);
        },
        std::move(finish));
  }

  Work scatter_all_reduced(const at::Tensor& output, const at::Tensor& input, ReduceOp op) {
    detail::check_communicable(input, group_.device.type());
    detail::check_communicable(output, group_.device.type());
    const auto part_of = [rank = rank(), numel = output.numel()](const at::Tensor& whole) {
      return whole.view({-1}).narrow(0, rank * numel, numel);
    };
    const bool in_place = part_of(input).data_ptr() == output.data_ptr();
    const at::Tensor all = in_place ? input : input.clone();
    auto whole = stage(all, op);
    const auto finish = [=, then = std::move(whole.finish)] {
      if (then) then();
      if (!in_place) output.copy_(part_of(all).view_as(output));
    };
    return start_all_reduce(FlightKind::reduce_scatter, whole.tensor, op, finish);
  }

  template <typename Call>
  Work start(FlightKind what, at::Tensor tensor, Call call, std::function<void()> then = {}) {
    Sentence sentence(what, tensor);
    refuse_when_aborted(sentence);
    // Engines that compare calls need empty tensors as calls too. Gloo does not accept them.
    if (tensor.numel() == 0 && !group_.traits.moves_every_dtype) return {};
    return begin(std::move(sentence), std::move(tensor), std::move(call), std::move(then));
  }

  template <typename Call>
  Work start_message(FlightKind what, int peer, at::Tensor tensor, Call call) {
    Sentence sentence(what, tensor, peer);
    refuse_when_aborted(sentence);
    return begin(std::move(sentence), std::move(tensor), std::move(call), nullptr);
  }

  template <typename Call>
  Work begin(Sentence what, at::Tensor tensor, Call call, std::function<void()> then) {
    auto waiting = waiting_for(what);
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    auto work = run(what, [&] { return call(tensors); });
    return Work(std::make_unique<C10dPending>(std::move(work), std::move(what), std::move(waiting),
                                              diagnosis_),
                std::move(then));
  }

  void refuse_when_aborted(const Sentence& what) const {
    if (diagnosis_->aborted()) diagnosis_->throw_if_aborted(what.text());
  }

  template <typename Call>
  c10::intrusive_ptr<c10d::Work> run(const Sentence& what, Call call) {
    try {
      return call();
    } catch (const UsageError&) {
      throw;
    } catch (const std::exception& error) {
      diagnosis_->throw_failure(what.text(), error);
    }
  }

  // A send or receive of Gloo fails when a wait for it ends early, so it gets one long wait.
  C10dPending::Waiting waiting_for(const Sentence& what) {
    const bool is_message = what.peer >= 0;
    const std::uint64_t number = is_message ? 0 : ++collectives_;
    return {.in_one_piece = is_message && !group_.traits.ends_when_aborted,
            .names_late_ranks = group_.traits.knows_who_is_there,
            .orders_streams = !group_.device.is_cpu(),
            .number = number,
            .ticket = flight_.begin(what, number)};
  }

  C10dGroup group_;
  c10::intrusive_ptr<c10d::Store> first_store_;  // The group's store before any renewal.
  std::shared_ptr<GroupDiagnosis> diagnosis_;
  detail::GroupFlight flight_ = detail::flight_of(group_.label, rank(), size());
  C10dConnection connection_;
  std::string name_;
  // Split-off groups, aborted with this group unless they were detached.
  std::vector<std::weak_ptr<C10dCommunicator>> parts_;
  std::atomic<bool> detached_ = false;
  std::uint64_t collectives_ = 0;  // Begun so far; the same number on all ranks.
  int splits_ = 0, renewals_ = 0;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace

std::shared_ptr<Communicator> make_c10d_communicator(C10dGroup group) {
  return std::make_shared<C10dCommunicator>(std::move(group));
}

}  // namespace accelerate
