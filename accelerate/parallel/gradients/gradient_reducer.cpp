#include "accelerate/parallel/gradients/gradient_reducer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/gradients/gradient_hook.h"

namespace accelerate {
namespace {

// A parameter and its place in a bucket.
struct Slot {
  std::string name;
  at::Tensor parameter;
  std::size_t bucket = 0;
  std::int64_t offset = 0;
  at::Tensor place{};     // its part of the bucket
  at::Tensor previous{};  // grad before this step, while it may have to be restored
  bool arrived = false;   // its gradient came in this step
};

struct Bucket {
  std::vector<std::size_t> slots;
  std::int64_t numel = 0;
  at::Tensor flat;
  std::size_t missing = 0;  // gradients that have not come
  Work work;
};

// Shares the memory of `flat` without being a view to autograd: Optimizer::zero_grad detaches
// gradients in place, which views refuse. Autograd keeps a gradient in its parameter's layout
// (channels_last, …), so it has that too.
at::Tensor place_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& parameter) {
  at::Tensor place = at::empty({0}, flat.options());
  if (parameter.is_non_overlapping_and_dense()) {
    place.set_(flat.storage(), offset, parameter.sizes(), parameter.strides());
  } else {
    place.set_(flat.storage(), offset, parameter.sizes());
  }
  return place;
}

std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

}  // namespace

struct GradientReducer::Impl {
  Impl(const std::vector<NamedTensor>& parameters, std::shared_ptr<Communicator> group,
       GradientReducerOptions reducer_options)
      : communicator(std::move(group)), options(std::move(reducer_options)) {
    for (const auto& [name, parameter] : without_duplicates(parameters)) {
      if (parameter.requires_grad()) {
        slots.push_back({.name = name, .parameter = parameter});
      } else {
        frozen.push_back({name, parameter});
      }
    }
    place_slots();
    hooks.reserve(slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      hooks.emplace_back(slots[i].parameter, [this, i] { on_gradient(i); });
    }
  }

  void place_slots() {
    std::vector<at::Tensor> parameters;
    for (const auto& slot : slots) parameters.push_back(slot.parameter);
    for (auto& members : assign_buckets(parameters, options.limits)) {
      Bucket bucket;
      for (const std::size_t i : members) {
        slots[i].bucket = buckets.size();
        slots[i].offset = bucket.numel;
        bucket.numel += slots[i].parameter.numel();
      }
      bucket.slots = std::move(members);
      buckets.push_back(std::move(bucket));
    }
  }

  void begin(bool synchronize) {
    const std::lock_guard lock(mutex);
    require_still_frozen();
    synchronizing = synchronize;
    arrivals = 0;
    next_to_launch = 0;
    for (auto& slot : slots) slot.arrived = false;
    for (auto& bucket : buckets) {
      bucket.missing = bucket.slots.size();
      bucket.work = {};
    }
  }

  // A leaf that was frozen has no hook: its gradients would stay local without a word.
  void require_still_frozen() const {
    for (const auto& [name, parameter] : frozen) {
      if (!parameter.requires_grad()) continue;
      throw UsageError(
          "'" + name +
          "' was frozen when the model was prepared and requires gradients now, "
          "which would not be synchronised. Unfreeze it before prepare(), or prepare the model "
          "again with a new Accelerator.");
    }
  }

  void on_gradient(std::size_t index) {
    const std::lock_guard lock(mutex);
    Slot& slot = slots[index];
    if (guard) guard(slot.name);
    ++arrivals;
    if (!synchronizing) return;
    if (std::exchange(slot.arrived, true)) {
      throw UsageError(
          "the gradient of '" + slot.name +
          "' came twice in one backward. A re-entrant "
          "backward (activation checkpointing of a shared parameter) is the usual cause; "
          "run the inner one under no_sync.");
    }
    take(slot);
    arrive(slot.bucket);
  }

  // Moves the leaf's gradient, divided by the world size, into the bucket.
  void take(Slot& slot) {
    const at::NoGradGuard no_grad;
    const at::Tensor& grad = slot.parameter.grad();
    if (grad.is_sparse()) {
      throw UsageError("the gradient of '" + slot.name +
                       "' is sparse, and data parallel training "
                       "reduces dense gradients. Make the embedding with sparse(false).");
    }
    ensure_memory(slot.bucket);
    if (grad.data_ptr() == slot.place.data_ptr()) {
      slot.place.mul_(scale());
      return;
    }
    at::mul_out(slot.place, grad, at::scalar_tensor(scale(), grad.options().device(at::kCPU)));
    slot.parameter.mutable_grad() = slot.place;
  }

  double scale() const { return 1.0 / communicator->size(); }

  void ensure_memory(std::size_t index) {
    Bucket& bucket = buckets[index];
    if (bucket.flat.defined()) return;
    const auto& example = slots[bucket.slots.front()].parameter;
    const auto tensor_options =
        at::TensorOptions().dtype(example.scalar_type()).device(example.device());
    bucket.flat = options.allocate ? options.allocate(bucket.numel, tensor_options)
                                   : at::zeros({bucket.numel}, tensor_options);
    for (const std::size_t i : bucket.slots) {
      slots[i].place = place_in(bucket.flat, slots[i].offset, slots[i].parameter);
    }
  }

  void arrive(std::size_t index) {
    --buckets[index].missing;
    while (next_to_launch < buckets.size() && buckets[next_to_launch].missing == 0) {
      Bucket& bucket = buckets[next_to_launch++];
      bucket.work = communicator->all_reduce(bucket.flat, ReduceOp::sum);
    }
  }

  bool finish() {
    const std::lock_guard lock(mutex);
    if (arrivals == 0 || !synchronizing) return arrivals > 0;
    const auto absent = absent_slots();
    require_none_unused(absent);
    const at::NoGradGuard no_grad;
    for (const std::size_t i : absent) take_absent(slots[i]);
    const auto used = options.find_unused_parameters ? used_anywhere() : std::vector<bool>();
    for (auto& bucket : buckets) bucket.work.wait();
    for (const std::size_t i : absent) settle_absent(slots[i], !used.empty() && used[i]);
    return true;
  }

  std::vector<std::size_t> absent_slots() const {
    std::vector<std::size_t> absent;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (!slots[i].arrived) absent.push_back(i);
    }
    return absent;
  }

  // Parameters frozen since prepare() may stay away; others only if that was asked for.
  void require_none_unused(const std::vector<std::size_t>& absent) {
    if (options.find_unused_parameters) return;
    std::vector<std::string> names;
    for (const std::size_t i : absent) {
      if (slots[i].parameter.requires_grad()) names.push_back(slots[i].name);
    }
    if (names.empty()) return;
    const std::string sentence =
        "these parameters require gradients but got none in backward: " + list_names(names) +
        ". If forward does not always use them, pass find_unused_parameters = true "
        "(DistributedDataParallelKwargs); else freeze them with requires_grad_(false) or use their "
        "output in the loss.";
    communicator->abort(sentence);  // the peers may be waiting for these buckets
    throw UsageError(sentence);
  }

  // A gradient that did not come counts with what had been accumulated before, or zero.
  void take_absent(Slot& slot) {
    slot.previous = slot.parameter.grad();
    ensure_memory(slot.bucket);
    if (slot.previous.defined()) {
      take(slot);
    } else {
      slot.place.zero_();
    }
    arrive(slot.bucket);
  }

  // A parameter that no rank used keeps the gradient it had.
  static void settle_absent(Slot& slot, bool used) {
    if (used || slot.previous.defined()) {
      slot.parameter.mutable_grad() = slot.place;
    }
    slot.previous.reset();
  }

  std::vector<bool> used_anywhere() {
    at::Tensor used = at::zeros({static_cast<std::int64_t>(slots.size())}, at::kInt);
    auto* flags = used.mutable_data_ptr<int>();
    for (std::size_t i = 0; i < slots.size(); ++i) flags[i] = slots[i].arrived ? 1 : 0;
    communicator->all_reduce(used, ReduceOp::max).wait();
    return std::vector<bool>(flags, flags + slots.size());
  }

  void abandon(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex);
    if (synchronizing && arrivals > 0) communicator->abort(reason);
    arrivals = 0;
  }

  std::shared_ptr<Communicator> communicator;
  GradientReducerOptions options;
  std::vector<Slot> slots;
  std::vector<NamedTensor> frozen;  // had no gradient when the model was prepared
  std::vector<Bucket> buckets;
  std::function<void(const std::string&)> guard;
  std::mutex mutex;  // gradients of several devices come on several threads
  bool synchronizing = true;
  std::size_t arrivals = 0;
  std::size_t next_to_launch = 0;
  std::vector<detail::GradientHook> hooks;  // last: gone before what they use
};

GradientReducer::GradientReducer(const std::vector<NamedTensor>& parameters,
                                 std::shared_ptr<Communicator> communicator,
                                 GradientReducerOptions options)
    : impl_(std::make_unique<Impl>(parameters, std::move(communicator), std::move(options))) {}

GradientReducer::~GradientReducer() = default;

void GradientReducer::set_guard(std::function<void(const std::string&)> guard) {
  impl_->guard = std::move(guard);
}

void GradientReducer::begin(bool synchronize) {
  impl_->begin(synchronize);
}

bool GradientReducer::gradients_came() const {
  return impl_->arrivals > 0;
}

bool GradientReducer::finish() {
  return impl_->finish();
}

void GradientReducer::abandon(const std::string& reason) noexcept {
  impl_->abandon(reason);
}

std::vector<std::int64_t> GradientReducer::bucket_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const auto& bucket : impl_->buckets) {
    const auto& example = impl_->slots[bucket.slots.front()].parameter;
    bytes.push_back(bucket.numel * static_cast<std::int64_t>(example.element_size()));
  }
  return bytes;
}

}  // namespace accelerate
