#include "accelerate/parallel/replicated/distributed_data_parallel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <atomic>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "accelerate/comm/staging.h"
#include "accelerate/parallel/gradients/gradient_reducer.h"

namespace accelerate {
namespace {

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const auto& item : without_duplicates(named)) tensors.push_back(item.tensor);
  return tensors;
}

std::string describe(const ModuleView& view) {
  std::string text;
  for (const auto& [name, tensor] : state_dict(view)) {
    text += (text.empty() ? "" : ", ") + name + " " + detail::describe_tensor(tensor);
  }
  for (const auto& [name, tensor] : view.parameters) {
    if (!tensor.requires_grad()) text += ", " + name + " frozen";
  }
  return text;
}

// Tensors packed into as few flat ones as their dtypes allow, under way from rank 0.
class CoalescedBroadcast {
 public:
  CoalescedBroadcast(const std::vector<at::Tensor>& tensors, Communicator& communicator) {
    const at::NoGradGuard no_grad;
    for (auto& members :
         assign_buckets(tensors, {.first_bytes = 25 << 20, .cap_bytes = 25 << 20})) {
      Part part;
      std::vector<at::Tensor> flat;
      for (const std::size_t i : members) {
        part.tensors.push_back(tensors[i]);
        flat.push_back(tensors[i].detach().reshape({-1}));
      }
      part.flat = at::cat(flat).to(at::kCPU);
      part.work = communicator.broadcast(part.flat, 0);
      parts_.push_back(std::move(part));
    }
  }

  void wait() {
    for (auto& part : parts_) part.work.wait();
  }

  // Writes what rank 0 sent into the tensors that differ. Not before wait().
  void store() {
    const at::NoGradGuard no_grad;
    for (auto& part : parts_) {
      std::int64_t offset = 0;
      for (auto& tensor : part.tensors) {
        const auto sent =
            part.flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()).to(tensor.device());
        if (!tensor.equal(sent)) tensor.copy_(sent);
        offset += tensor.numel();
      }
    }
  }

 private:
  struct Part {
    std::vector<at::Tensor> tensors;
    at::Tensor flat;
    Work work;
  };
  std::vector<Part> parts_;
};

}  // namespace

struct DistributedDataParallel::Impl {
  Impl(const ModuleView& view, std::shared_ptr<Communicator> group,
       const DistributedDataParallelKwargs& ddp_kwargs)
      : communicator(std::move(group)), kwargs(ddp_kwargs), buffers(tensors_of(view.buffers)) {
    constexpr double kMost = 1 << 20;  // a tebibyte
    if (!(kwargs.bucket_cap_mb > 0 && kwargs.bucket_cap_mb <= kMost)) {
      throw ConfigError(
          "bucket_cap_mb is " + std::to_string(kwargs.bucket_cap_mb) +
          "; it must be greater than 0 and at most 1048576 (upstream's default is 25)");
    }
    if (communicator->size() == 1) return;
    const auto state = state_dict(view);
    detail::require_agreement(*communicator, "prepare(" + view.class_name + ")", describe(view));
    CoalescedBroadcast initial(tensors_of(state), *communicator);
    initial.wait();
    initial.store();
    make_reducer(view);
  }

  void make_reducer(const ModuleView& view) {
    GradientReducerOptions options;
    options.limits.cap_bytes = static_cast<std::int64_t>(kwargs.bucket_cap_mb * (1 << 20));
    options.limits.first_bytes = std::min(options.limits.first_bytes, options.limits.cap_bytes);
    options.find_unused_parameters = kwargs.find_unused_parameters;
    reducer = std::make_unique<GradientReducer>(view.parameters, communicator, options);
    reducer->set_guard([this](const std::string& name) { check_gradient(name); });
  }

  void check_gradient(const std::string& name) const {
    if (!in_backward) {
      throw UsageError("the gradient of '" + name +
                       "' was computed by loss.backward(); the ranks could "
                       "not synchronise it. Call accelerator.backward(loss).");
    }
    if (!armed_in_this_backward) {
      throw UsageError(
          "the gradient of '" + name +
          "' was computed, but the prepared model did not run "
          "forward: the module was called behind its back. Call the object that prepare() "
          "returned, model(x) or model.forward(x), not the original module.");
    }
  }

  void before_forward(bool grad_enabled) {
    store_received_buffers();
    if (grad_enabled) ++armed;
  }

  void begin_backward(bool retain_graph) {
    if (!reducer) return;
    armed_in_this_backward = armed > 0;
    keep_armed = retain_graph;
    in_backward = true;
    synchronizing = synchronize || triggered;
    reducer->begin(synchronizing);
  }

  // What is sent depends only on which models' gradients came, which the ranks have in common; when
  // it is stored is each rank's own affair.
  void finish_backward() {
    if (!reducer) return;
    in_backward = false;
    if (reducer->gradients_came() && synchronizing && kwargs.broadcast_buffers &&
        !buffers.empty()) {
      received_buffers = std::make_unique<CoalescedBroadcast>(buffers, *communicator);
    }
    const bool came = reducer->finish();
    if (received_buffers) received_buffers->wait();
    if (came) triggered = false;
    if (came && !keep_armed && armed > 0) --armed;
    if (armed == 0) store_received_buffers();
  }

  // A graph that has not been through backward may hold the buffers as they are: then they wait
  // until it has, or until the next forward.
  void store_received_buffers() {
    if (auto received = std::exchange(received_buffers, nullptr)) received->store();
  }

  std::shared_ptr<Communicator> communicator;
  DistributedDataParallelKwargs kwargs;
  std::vector<at::Tensor> buffers;
  std::unique_ptr<CoalescedBroadcast> received_buffers;
  bool synchronize = true;
  bool triggered = false;      // the next backward synchronises all the same
  bool synchronizing = false;  // this one does
  bool keep_armed = false;
  std::atomic<bool> in_backward = false;             // read by hooks on backward's threads
  std::atomic<bool> armed_in_this_backward = false;  // as above
  int armed = 0;                                     // forwards that no backward has used up
  std::unique_ptr<GradientReducer> reducer;  // none in a group of one; last: its hooks use the rest
};

DistributedDataParallel::DistributedDataParallel(const ModuleView& view,
                                                 std::shared_ptr<Communicator> communicator,
                                                 const DistributedDataParallelKwargs& kwargs)
    : impl_(std::make_unique<Impl>(view, std::move(communicator), kwargs)) {}

DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::before_forward(bool grad_enabled) {
  impl_->before_forward(grad_enabled);
}

void DistributedDataParallel::begin_backward(bool retain_graph) {
  impl_->begin_backward(retain_graph);
}

void DistributedDataParallel::finish_backward() {
  impl_->finish_backward();
}

void DistributedDataParallel::abandon_backward(const std::string& reason) noexcept {
  impl_->in_backward = false;
  if (impl_->reducer) impl_->reducer->abandon(reason);
  impl_->received_buffers = nullptr;
}

void DistributedDataParallel::set_synchronize(bool synchronize) {
  impl_->synchronize = synchronize;
}

void DistributedDataParallel::trigger_sync_in_backward() {
  impl_->triggered = true;
}

bool DistributedDataParallel::synchronize() const {
  return impl_->synchronize;
}

}  // namespace accelerate
