// The collectives of accelerate/comm/shared_memory as a backend of Python's torch.distributed: what
// Python calls of c10d's interface beyond a Communicator, with errors of the types that Python has.
#include <c10/util/Exception.h>
#include <pybind11/chrono.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/backend.h"
#include "accelerate/comm/shared_memory/peers.h"
#include "accelerate/comm/shared_memory/shared_group.h"

namespace accelerate::python {
namespace {

using c10d::OpType;
using Milliseconds = std::chrono::milliseconds;
using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using Future = c10::ivalue::Future;

// Of the messages that carry an all-to-all of uneven parts; no user's tag.
constexpr int kTagOfParts = std::numeric_limits<int>::max();

// Runs `call`. Python sees a UsageError as ValueError, a CommError as torch.distributed.DistBackendError.
template <typename Call>
auto with_python_errors(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const UsageError& error) {
    C10_THROW_ERROR(ValueError, error.what());
  } catch (const Error& error) {
    C10_THROW_ERROR(DistBackendError, error.what());
  }
}

std::exception_ptr as_python_error(const std::exception_ptr& error) {
  if (!error) return nullptr;
  try {
    with_python_errors([&] { std::rethrow_exception(error); });
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

// One call of Python: one or several operations of the engine.
class PythonWork final : public c10d::Work {
 public:
  PythonWork(int rank, OpType type, std::vector<WorkPtr> parts, std::uint64_t number)
      : Work(rank, type), parts_(std::move(parts)), number_(number) {}

  bool isCompleted() override {
    bool all = true;
    for (const auto& part : parts_) all = part->isCompleted() && all;
    return all;
  }
  bool isSuccess() const override {
    for (const auto& part : parts_) {
      if (!part->isSuccess()) return false;
    }
    return true;
  }
  std::exception_ptr exception() const override {
    for (const auto& part : parts_) {
      if (const auto error = part->exception()) return as_python_error(error);
    }
    return nullptr;
  }
  // An operation that nobody waits for any more must not write into its tensors later, so it is
  // aborted, and the peers learn which rank they miss.
  bool wait(Milliseconds timeout) override {
    return with_python_errors([&] {
      for (const auto& part : parts_) {
        try {
          (void)part->wait(timeout);
        } catch (...) {
          part->abort();
          throw;
        }
      }
      return true;
    });
  }
  void synchronize() override { (void)wait(kNoTimeout); }
  void abort() override {
    for (const auto& part : parts_) part->abort();
  }
  std::uint64_t getSequencenumber() const override { return number_; }

  Tensors result() override {
    Tensors all;
    for (const auto& part : parts_) {
      for (auto& tensor : part->result()) all.push_back(std::move(tensor));
    }
    return all;
  }

  c10::intrusive_ptr<Future> getFuture() override {
    struct Progress {
      std::atomic<std::size_t> left;
      std::once_flag told;
    };
    auto future = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()));
    if (parts_.empty()) future->markCompleted(c10::IValue(Tensors{}));
    auto progress = std::make_shared<Progress>();
    progress->left = parts_.size();
    for (const auto& part : parts_) {
      part->getFuture()->addCallback([future, progress, outputs = result()](Future& done) {
        if (done.hasError()) {
          std::call_once(progress->told,
                         [&] { future->setError(as_python_error(done.exception_ptr())); });
        } else if (--progress->left == 0) {
          future->markCompleted(c10::IValue(outputs));
        }
      });
    }
    return future;
  }

 private:
  std::vector<WorkPtr> parts_;
  std::uint64_t number_;
};

class PythonBackend final : public c10d::Backend {
 public:
  PythonBackend(BackendPtr engine, std::shared_ptr<detail::LocalPeers> peers, Milliseconds timeout)
      : Backend(engine->getRank(), engine->getSize()),
        engine_(std::move(engine)),
        peers_(std::move(peers)),
        options_(c10::make_intrusive<Options>("accelerate", timeout)) {}
  // The engine waits for its thread, which may wait for the interpreter.
  ~PythonBackend() override {
    std::optional<pybind11::gil_scoped_release> released;
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released.emplace();
    engine_.reset();
  }

  [[nodiscard]] const std::shared_ptr<detail::LocalPeers>& peers() const { return peers_; }

  const std::string getBackendName() const override { return "accelerate"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  void setTimeout(Milliseconds timeout) override {
    options_->timeout = timeout;
    engine_->setTimeout(timeout);
  }
  void abort() override { engine_->abort(); }
  void shutdown() override { engine_->shutdown(); }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return number_; }

  // DistributedDataParallel asks for its buckets here, and FSDP 2 when it is told to. Collectives
  // use this memory without a copy.
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override {
    return with_python_errors([&] { return detail::empty_for_peers(*peers_, {size}, options); });
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return run([&] { return engine_->allreduce(tensors, options); });
  }
  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& options) override {
    return run_all(OpType::ALLREDUCE_COALESCED, tensors.size(), [&](std::size_t i) {
      Tensors one{tensors[i]};
      return engine_->allreduce(one, options);
    });
  }
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return run([&] { return engine_->reduce(tensors, options); });
  }
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return run([&] { return engine_->broadcast(tensors, options); });
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return run([&] { return engine_->barrier(options); });
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& options) override {
    return run([&] { return engine_->allgather(outputs, inputs, options); });
  }
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override {
    return run([&] { return engine_->_allgather_base(output, input, options); });
  }
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override {
    check_alike(outputs, inputs);
    return run_all(OpType::COALESCED, inputs.size(), [&](std::size_t i) {
      return engine_->_allgather_base(outputs[i], inputs[i], options);
    });
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& options) override {
    return run([&] { return engine_->gather(outputs, inputs, options); });
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override {
    return run([&] { return engine_->reduce_scatter(outputs, inputs, options); });
  }
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override {
    return run([&] { return engine_->_reduce_scatter_base(output, input, options); });
  }
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override {
    check_alike(outputs, inputs);
    return run_all(OpType::COALESCED, inputs.size(), [&](std::size_t i) {
      return engine_->_reduce_scatter_base(outputs[i], inputs[i], options);
    });
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& options) override {
    return run([&] { return engine_->scatter(outputs, inputs, options); });
  }

  // A rank cannot see whether its peers' parts are even, so it decides by whether it was told sizes.
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_rows,
                        std::vector<int64_t>& input_rows,
                        const c10d::AllToAllOptions& options) override {
    if (output_rows.empty() && input_rows.empty()) {
      return run(
          [&] { return engine_->alltoall_base(output, input, output_rows, input_rows, options); });
    }
    return exchange(OpType::ALLTOALL_BASE, split(output, output_rows), split(input, input_rows));
  }
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    return exchange(OpType::ALLTOALL, outputs, inputs);
  }

  WorkPtr send(Tensors& tensors, int destination, int tag) override {
    return run([&] { return engine_->send(tensors, destination, tag); });
  }
  WorkPtr recv(Tensors& tensors, int source, int tag) override {
    return run([&] { return engine_->recv(tensors, source, tag); });
  }

  WorkPtr recvAnysource(Tensors&, int) override {
    refuse("a receive from any rank: name the source, as in recv(tensor, src=0)");
  }
  WorkPtr allreduce_sparse(Tensors&, const c10d::AllreduceOptions&) override {
    refuse("sparse tensors: pass tensor.to_dense(), or make embeddings with sparse=False");
  }
  WorkPtr allgather_coalesced(std::vector<Tensors>&, Tensors&,
                              const c10d::AllgatherOptions&) override {
    refuse("all_gather_coalesced: call all_gather_into_tensor for each tensor");
  }
  void monitoredBarrier(const c10d::BarrierOptions&, bool) override {
    refuse("monitored_barrier: call barrier, whose error names the rank that is late");
  }

 private:
  [[noreturn]] static void refuse(const std::string& what) {
    C10_THROW_ERROR(NotImplementedError,
                    "the backend accelerate does not take " + what + ". Or use the backend gloo.");
  }

  template <typename Start>
  WorkPtr run(Start start) {
    const WorkPtr work = with_python_errors(start);
    return c10::make_intrusive<PythonWork>(rank_, work->retrieveOpType(),
                                           std::vector<WorkPtr>{work}, number_++);
  }
  template <typename Start>
  WorkPtr run_all(OpType type, std::size_t count, Start start) {
    std::vector<WorkPtr> parts;
    for (std::size_t i = 0; i < count; ++i) {
      parts.push_back(with_python_errors([&] { return start(i); }));
    }
    return c10::make_intrusive<PythonWork>(rank_, type, std::move(parts), number_++);
  }

  static void check_alike(const Tensors& outputs, const Tensors& inputs) {
    TORCH_CHECK_VALUE(outputs.size() == inputs.size(),
                      "a coalesced collective needs as many "
                      "outputs as inputs, not ",
                      outputs.size(), " and ", inputs.size());
  }

  // Returns the rows for each rank.
  Tensors split(const at::Tensor& tensor, const std::vector<int64_t>& rows) const {
    c10d::checkSplitSizes(rows, tensor, size_);
    Tensors parts;
    for (int64_t peer = 0, begin = 0; peer < size_; ++peer) {
      const int64_t count = rows.empty() ? tensor.size(0) / size_ : rows[peer];
      parts.push_back(tensor.narrow(0, begin, count));
      begin += count;
    }
    return parts;
  }

  // All-to-all of parts of any size, as messages between every two ranks.
  WorkPtr exchange(OpType type, const Tensors& outputs, const Tensors& inputs) {
    const auto size = static_cast<std::size_t>(size_), own = static_cast<std::size_t>(rank_);
    TORCH_CHECK_VALUE(outputs.size() == size && inputs.size() == size,
                      "all_to_all needs an output and an input for each of the ", size_, " ranks");
    TORCH_CHECK_VALUE(outputs[own].sizes() == inputs[own].sizes(), "rank ", rank_,
                      " sends itself a tensor of sizes ", inputs[own].sizes(),
                      " and receives one of ", outputs[own].sizes());
    std::vector<WorkPtr> parts;
    with_python_errors([&] {
      for (int step = 1; step < size_; ++step) {  // Ranks begin with different peers.
        const int to = (rank_ + step) % size_, from = (rank_ + size_ - step) % size_;
        Tensors received{outputs[from]}, sent{inputs[to]};
        parts.push_back(engine_->recv(received, from, kTagOfParts));
        parts.push_back(engine_->send(sent, to, kTagOfParts));
      }
    });
    at::Tensor mine = outputs[own];
    mine.copy_(inputs[own]);
    return c10::make_intrusive<PythonWork>(rank_, type, std::move(parts), number_++);
  }

  BackendPtr engine_;
  std::shared_ptr<detail::LocalPeers> peers_;
  c10::intrusive_ptr<Options> options_;
  std::atomic<std::uint64_t> number_{0};
};

// Returns a part of `store` that no earlier group of these ranks has used: after
// destroy_process_group the next group has the same name.
StorePtr fresh_part_of(const StorePtr& store, int size) {
  const auto founded = (store->add("ranks", 1) - 1) / size;
  return c10::make_intrusive<c10d::PrefixStore>("founded/" + std::to_string(founded), store);
}

std::shared_ptr<detail::LocalPeers> meet(const StorePtr& store, int rank, int size,
                                         const GroupTimes& times) {
  const auto hosts =
      detail::meet_hosts(c10::make_intrusive<c10d::PrefixStore>("hosts", store), rank, size, times);
  const std::string cure =
      " Use the backend gloo there, and leave ACCELERATE_CPP_TORCH out if it is set.";
  if (!hosts.why_not.empty()) {
    throw CommError("the ranks cannot share memory: " + hosts.why_not + "." + cure);
  }
  for (std::size_t other = 0; other < hosts.host_of.size(); ++other) {
    if (hosts.host_of[other] == 0) continue;
    throw CommError("the backend accelerate takes ranks of one host, and rank " +
                    std::to_string(other) + " is on another host than rank 0." + cure);
  }
  return hosts.peers;
}

struct Place {
  int rank = 0;
  int size = 1;
};

// Makes the backend of a group. [collective] The ranks of a part of `world` know each other already; else
// `world` is null, or another backend.
BackendPtr make_backend(const StorePtr& store, Place place, Milliseconds timeout,
                        const BackendPtr& world) {
  return with_python_errors([&]() -> BackendPtr {
    const GroupTimes times(timeout);
    const StorePtr own = fresh_part_of(store, place.size);
    const auto* whole = dynamic_cast<const PythonBackend*>(world.get());
    auto peers = whole != nullptr ? whole->peers() : meet(own, place.rank, place.size, times);
    const std::function<void()> nothing;
    const detail::Founding founding{*own, place.rank, place.size, times, nothing};
    auto group = std::make_shared<detail::SharedGroup>(founding, peers);
    return c10::make_intrusive<PythonBackend>(
        detail::make_shared_memory_backend(founding, std::move(group)), std::move(peers), timeout);
  });
}

}  // namespace

PYBIND11_MODULE(_engine, module) {
  pybind11::module_::import("torch.distributed");  // Knows the types of the function below.
  module.def("make_backend",
             torch::wrap_pybind_function_no_gil([](const StorePtr& store, int rank, int size,
                                                   Milliseconds timeout, const BackendPtr& world) {
               return make_backend(store, {rank, size}, timeout, world);
             }),
             pybind11::arg("store"), pybind11::arg("rank"), pybind11::arg("size"),
             pybind11::arg("timeout"), pybind11::arg("world").none(true));
}

}  // namespace accelerate::python
