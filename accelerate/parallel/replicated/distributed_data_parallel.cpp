#include "accelerate/parallel/replicated/distributed_data_parallel.h"

#include <c10/core/Layout.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/operations.h"
#include "accelerate/parallel/gradients/gradient_hook.h"
#include "accelerate/parallel/gradients/gradient_reducer.h"
#include "accelerate/parallel/replicated/packed_tensors.h"
#include "accelerate/parallel/replicated/write_watch.h"
#include "accelerate/tensor/module_view.h"

namespace accelerate {
namespace {

bool is_dense(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided;
}

std::string describe_with_layout(const at::Tensor& tensor) {
  const auto text = detail::describe_tensor(tensor);
  if (tensor.is_meta()) return text + " without memory";
  return is_dense(tensor) ? text : text + " of layout " + c10::str(tensor.layout());
}

std::string describe(const ModuleView& view) {
  std::string text;
  for (const auto& [name, tensor] : state_dict(view)) {
    text += (text.empty() ? "" : ", ") + name + " " + describe_with_layout(tensor);
  }
  for (const auto& [name, tensor] : view.parameters) {
    if (!tensor.requires_grad()) text += ", " + name + " frozen";
  }
  return text;
}

// Throws UsageError for a sparse tensor, which PyTorch does not send either.
void require_dense(const ModuleView& view) {
  for (const auto& [name, tensor] : state_dict(view)) {
    if (is_dense(tensor)) continue;
    throw UsageError("'" + name + "' of the model " + view.class_name + " is " +
                     describe_with_layout(tensor) +
                     ". Data parallel training on several ranks needs dense parameters and "
                     "buffers. Register the indices and values of a sparse tensor as buffers, and "
                     "rebuild the tensor in forward(). Or keep the tensor in an unregistered "
                     "member that every rank fills equally");
  }
}

}  // namespace

struct DistributedDataParallel::Impl {
  Impl(const ModuleView& view, DistributedDataParallel& engine,
       const DistributedDataParallelKwargs& ddp_kwargs, WhenAlone when_alone)
      : communicator(engine.communicator()),
        arming(engine.arming_),
        kwargs(ddp_kwargs),
        parameters(detail::tensors_of(view.parameters)),
        buffers(detail::tensors_of(view.buffers)),
        writes(without_duplicates(view.parameters)) {
    auto hook = make_comm_hook(kwargs);
    if (!is_alone())
      detail::require_agreement(*communicator, "prepare(" + view.class_name + ")", describe(view));
    detail::require_memory(view, "prepared for data parallel training");
    if (is_alone() && when_alone == WhenAlone::train) {
      watch_gradients(view);
      return;
    }
    require_dense(view);
    broadcast_state(0, /*with_buffers=*/true);
    make_reducer(view);
    set_comm_hook(std::move(hook));
  }

  bool is_alone() const { return communicator->size() == 1; }

  // Does nothing in a group of one, where a hook would only round.
  void set_comm_hook(CommHook hook) {
    if (reducer && !is_alone()) reducer->set_comm_hook(std::move(hook));
  }

  // Warns when a module is called past its prepared model. In a group of one this does no harm,
  // because no other rank waits for the gradients.
  void watch_gradients(const ModuleView& view) {
    for (const auto& item : without_duplicates(view.parameters)) {
      if (!item.tensor.requires_grad()) continue;
      watches.emplace_back(item.tensor, [this, name = item.name] { warn_of_bypass(name); });
    }
  }

  void warn_of_bypass(const std::string& parameter) {
    if (!arming.came_past_the_model() || warned.exchange(true)) return;
    get_logger("accelerate.parallel")
        .warning(detail::Arming::past_the_model(parameter) + ". On several ranks this is an error");
  }

  void make_reducer(const ModuleView& view) {
    GradientReducerOptions options;
    options.limits.cap_bytes = static_cast<std::int64_t>(kwargs.bucket_cap_mb * (1 << 20));
    options.limits.first_bytes = std::min(options.limits.first_bytes, options.limits.cap_bytes);
    options.find_unused_parameters = kwargs.find_unused_parameters;
    options.static_graph = kwargs.static_graph;
    options.gradient_as_bucket_view = kwargs.gradient_as_bucket_view;
    reducer = std::make_unique<GradientReducer>(view.parameters, communicator, options);
    reducer->set_guard([this](const std::string& name) { arming.check(name); });
  }

  void before_forward(bool grad_enabled) {
    store_received_buffers();
    arming.before_forward(grad_enabled);
  }

  void begin_backward(const BackwardPass& pass) {
    arming.begin_backward(pass.retain_graph);
    if (reducer) reducer->begin(gradient_pass(pass, /*shadow=*/false));
  }

  GradientPass gradient_pass(const BackwardPass& pass, bool shadow) const {
    return {.synchronize = shadow || arming.synchronizes(),
            .loss = pass.loss,
            .shadow = shadow,
            .several = pass.several_models,
            .in_finish = pass.reduce_at_the_end};
  }

  void finish_backward() {
    if (reducer) {
      finish_reduction();
      arming.synchronizes() ? writes.forget() : writes.note();
    }
    arming.finish_backward();
    if (arming.is_idle()) store_received_buffers();
  }

  // Sends buckets first, then buffers: the same order on all ranks. Buffers are sent for models
  // whose gradients came, which is the same on all ranks. Each rank may store the received buffers
  // at a different time.
  void finish_reduction() {
    if (!reducer->flush()) return;
    if (kwargs.broadcast_buffers && !buffers.empty() && !is_alone()) {
      received_buffers = std::make_unique<detail::PackedTensors>(buffers);
      received_buffers->broadcast(*communicator, buffer_source);
    }
    reducer->wait();
    if (received_buffers) received_buffers->wait();
  }

  // Writes the received buffers into the model. A graph whose backward is still to come may hold
  // the old buffers, so callers wait for that backward or for the next forward.
  void store_received_buffers() {
    if (auto received = std::exchange(received_buffers, nullptr)) received->store();
  }

  void begin_shadow(const BackwardPass& pass) {
    if (reducer) reducer->begin(gradient_pass(pass, /*shadow=*/true));
  }

  void finish_shadow() {
    if (!reducer) return;
    finish_reduction();
    store_received_buffers();
  }

  void broadcast_state(int source, bool with_buffers) {
    auto state = parameters;
    if (with_buffers) state.insert(state.end(), buffers.begin(), buffers.end());
    broadcast(state, source);
  }

  void broadcast(const std::vector<at::Tensor>& tensors, int source) {
    detail::PackedTensors packed(tensors);
    packed.broadcast(*communicator, source);
    packed.wait();
    packed.store();
    writes.forget();
  }

  void average_parameters() {
    if (!reducer) return;
    detail::PackedTensors packed(parameters);
    packed.average(*communicator);
    packed.wait();
    packed.store();
    writes.forget();
    if (kwargs.broadcast_buffers) broadcast(buffers, 0);
  }

  // --- windows ----------------------------------------------------------------------------------
  void require_unwritten(std::int64_t window) {
    const auto changed = writes.changed_in(window);
    if (!changed) return;
    throw UsageError("rank " + std::to_string(communicator->rank()) + " changed parameter '" +
                         *changed +
                         "' before the ranks had synchronised its gradient. Each rank would apply "
                         "another gradient, "
                         "and the models would differ. Call step() and zero_grad() of the prepared "
                         "optimizer, which "
                         "waits for the last micro-batch, not of the original. Change parameters "
                         "by hand only when "
                         "sync_gradients() is true",
                     error_name::kNotPrepared);
  }

  void watch_writes(std::optional<std::int64_t> window) {
    if (!reducer) return;
    window ? writes.watch(*window) : writes.forget();
  }

  std::shared_ptr<Communicator> communicator;
  detail::Arming& arming;
  DistributedDataParallelKwargs kwargs;
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> buffers;
  std::unique_ptr<detail::PackedTensors> received_buffers;
  int buffer_source = 0;
  detail::WriteWatch writes;
  std::atomic<bool> warned = false;
  std::unique_ptr<GradientReducer> reducer;   // null in a group of one, unless check_as_a_group
  std::vector<detail::GradientHook> watches;  // without a reducer; last: hooks use the rest
};

DistributedDataParallel::DistributedDataParallel(const ModuleView& view,
                                                 std::shared_ptr<Communicator> communicator,
                                                 const DistributedDataParallelKwargs& kwargs,
                                                 WhenAlone when_alone)
    : ParallelEngine(std::move(communicator)),
      impl_(std::make_unique<Impl>(view, *this, kwargs, when_alone)) {}

DistributedDataParallel::~DistributedDataParallel() = default;

void DistributedDataParallel::before_forward(bool grad_enabled) {
  impl_->before_forward(grad_enabled);
}

void DistributedDataParallel::begin_backward(const BackwardPass& pass) {
  impl_->begin_backward(pass);
}

void DistributedDataParallel::finish_backward() {
  impl_->finish_backward();
}

void DistributedDataParallel::abandon_backward(const at::Tensor& loss, const std::string& reason) {
  impl_->arming.abandon_backward();
  impl_->received_buffers = nullptr;
  if (!would_communicate(loss)) return;
  // A module that was called past its prepared model was so on all ranks, before anything was sent.
  const bool misused = !impl_->arming.was_armed() && impl_->reducer->is_reached_by(loss);
  if (!misused) impl_->reducer->abandon(reason);
}

void DistributedDataParallel::register_comm_hook(CommHook hook) {
  impl_->set_comm_hook(std::move(hook));
}

void DistributedDataParallel::require_unwritten(std::int64_t window) {
  impl_->require_unwritten(window);
}

void DistributedDataParallel::watch_writes(std::optional<std::int64_t> window) {
  impl_->watch_writes(window);
}

bool DistributedDataParallel::would_communicate(const at::Tensor& loss) const {
  if (!impl_->reducer || !impl_->arming.synchronizes()) return false;
  return impl_->reducer->asks_every_time() || impl_->reducer->is_reached_by(loss);
}

void DistributedDataParallel::begin_shadow(const BackwardPass& pass) {
  impl_->begin_shadow(pass);
}

void DistributedDataParallel::finish_shadow() {
  impl_->finish_shadow();
}

void DistributedDataParallel::set_buffer_source(int rank) {
  impl_->buffer_source = rank;
}

void DistributedDataParallel::broadcast_state(int source) {
  impl_->broadcast_state(source, impl_->kwargs.broadcast_buffers);
}

void DistributedDataParallel::average_parameters() {
  impl_->average_parameters();
}

}  // namespace accelerate
