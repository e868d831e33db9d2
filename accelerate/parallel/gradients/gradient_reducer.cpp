#include "accelerate/parallel/gradients/gradient_reducer.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "accelerate/parallel/gradients/bucket_store.h"
#include "accelerate/parallel/gradients/gradient_hook.h"
#include "accelerate/parallel/gradients/usage.h"

namespace accelerate {
namespace {

using detail::Bucket;
using detail::Slot;
using detail::Usage;

std::vector<NamedTensor> leaves(const std::vector<NamedTensor>& parameters, bool trainable) {
  std::vector<NamedTensor> chosen;
  for (const auto& item : without_duplicates(parameters)) {
    if (item.tensor.requires_grad() == trainable) chosen.push_back(item);
  }
  return chosen;
}

}  // namespace

struct GradientReducer::Impl {
  Impl(const std::vector<NamedTensor>& parameters, std::shared_ptr<Communicator> group,
       GradientReducerOptions reducer_options)
      : communicator(std::move(group)),
        options(std::move(reducer_options)),
        frozen(leaves(parameters, false)),
        store(leaves(parameters, true),
              {options.limits, options.gradient_as_bucket_view, allocator()}),
        usage(store.slots.size(), communicator->size()) {
    hooks.reserve(store.slots.size());
    for (std::size_t i = 0; i < store.slots.size(); ++i) {
      hooks.emplace_back(store.slots[i].parameter, [this, i] { on_gradient(i); });
    }
  }

  // Returns an allocator of buckets, whose memory the group reduces in place.
  std::function<at::Tensor(std::int64_t, const at::TensorOptions&)> allocator() const {
    return [group = communicator](std::int64_t numel, const at::TensorOptions& tensor_options) {
      return group->empty({numel}, tensor_options).zero_();
    };
  }

  // --- the start of a step ----------------------------------------------------------------------
  void begin(const GradientPass& next_pass) {
    const std::lock_guard lock(mutex);
    require_still_frozen();
    pass = next_pass;
    arrivals = 0;
    next_to_start = 0;
    usage_is_complete = false;
    counting = options.static_graph && !counted;
    for (auto& slot : store.slots) {
      slot.accumulations = 0;
      slot.taken = false;
    }
    for (auto& bucket : store.buckets) {
      bucket.missing = 0;
      bucket.ready = bucket.skipped = false;
      bucket.work = {};
    }
    if (pass.synchronize) expect_gradients();
    pass.loss.reset();  // the reducer must not keep the graph alive
  }

  void expect_gradients() {
    const auto reached = reached_slots();
    for (std::size_t i = 0; i < reached.size(); ++i) {
      Slot& slot = store.slots[i];
      slot.reached = reached[i];
      if (slot.reached) ++store.buckets[slot.bucket].missing;
    }
    if (asks_every_time()) ask_for_usage([](const Slot& slot) { return slot.reached; });
  }

  bool asks_every_time() const { return options.find_unused_parameters && !options.static_graph; }

  std::vector<bool> reached_slots() const {
    const std::size_t n = store.slots.size();
    if (pass.shadow) return std::vector<bool>(n, false);
    if (asks_every_time() && pass.loss.defined()) return walk(pass.loss);
    std::vector<bool> reached(n, true);
    if (options.static_graph && counted) {
      for (std::size_t i = 0; i < n; ++i) reached[i] = store.slots[i].expected > 0;
    }
    return reached;
  }

  std::vector<bool> walk(const at::Tensor& loss) const {
    std::vector<at::Tensor> parameters;
    for (const auto& slot : store.slots) parameters.push_back(slot.parameter);
    return detail::reached_leaves(loss, parameters);
  }

  // Asks which parameters have gradients on which ranks. What was accumulated since the last
  // synchronisation counts as well.
  template <typename IsUsed>
  void ask_for_usage(IsUsed is_used) {
    std::vector<bool> mine;
    for (const auto& slot : store.slots) {
      mine.push_back(!pass.shadow && (slot.touched || is_used(slot)));
    }
    usage.ask(*communicator, mine);
  }

  void require_still_frozen() const {
    for (const auto& [name, parameter] : frozen) {
      if (parameter.requires_grad()) throw detail::thawed(name);
    }
  }

  // --- during backward --------------------------------------------------------------------------
  void on_gradient(std::size_t index) {
    const std::lock_guard lock(mutex);
    Slot& slot = store.slots[index];
    if (guard) guard(slot.name);
    ++arrivals;
    ++slot.accumulations;
    slot.touched = true;
    if (!pass.synchronize || counting) return;
    if (!slot.reached || slot.accumulations > slot.expected) {
      throw detail::came_unexpectedly(slot, options.static_graph);
    }
    if (slot.accumulations < slot.expected) return;
    take(slot);
    --store.buckets[slot.bucket].missing;
    if (!pass.in_finish) start_full_buckets();
  }

  // Moves the leaf's gradient into the bucket, divided by the world size unless a hook does that.
  void take(Slot& slot) {
    const at::NoGradGuard no_grad;
    const at::Tensor& grad = slot.parameter.grad();
    if (grad.is_sparse()) throw detail::is_sparse(slot.name);
    ready(slot.bucket);
    slot.taken = true;
    const double scale = hook ? 1.0 : 1.0 / communicator->size();
    if (grad.data_ptr() == slot.place.data_ptr()) {
      if (!hook) slot.place.mul_(scale);
      return;
    }
    at::mul_out(slot.place, grad, at::scalar_tensor(scale, grad.options().device(at::kCPU)));
    slot.parameter.mutable_grad() = slot.place;
  }

  void ready(std::size_t index) {
    Bucket& bucket = store.buckets[index];
    if (std::exchange(bucket.ready, true)) return;
    if (pass.shadow) {
      store.leave_gradients_alone(bucket);
    } else {
      store.ready_memory(bucket);
    }
  }

  void start_full_buckets() {
    while (next_to_start < store.buckets.size() && store.buckets[next_to_start].missing == 0) {
      complete_usage();
      // Ranks that use different parameters fill their buckets at different points of backward. The
      // buckets of several models would then start in different orders, so all wait for the end.
      if (pass.several && !usage.is_unanimous()) return;
      start(next_to_start++);
    }
  }

  void start(std::size_t index) {
    Bucket& bucket = store.buckets[index];
    if (bucket.skipped) return;
    const at::NoGradGuard no_grad;
    bucket.work = hook ? hook(*communicator, bucket.content)
                       : communicator->all_reduce(bucket.content.buffer, ReduceOp::sum);
  }

  // Once it is known which rank has which gradients: skips the buckets for which no rank has any,
  // and fills in the gradients that this rank lacks in the other buckets.
  void complete_usage() {
    if (std::exchange(usage_is_complete, true)) return;
    usage.wait();
    Bucket* last = nullptr;
    for (auto& bucket : store.buckets) {
      bucket.skipped = std::none_of(bucket.slots.begin(), bucket.slots.end(),
                                    [this](std::size_t i) { return usage.anywhere(i); });
      bucket.content.is_last = false;
      if (!bucket.skipped) last = &bucket;
    }
    if (last != nullptr) last->content.is_last = true;
    for (auto& slot : store.slots) {
      if (!slot.reached) fill_absent(slot);
    }
  }

  // Fills in a gradient that did not come: with what was accumulated before, or with zero.
  void fill_absent(Slot& slot) {
    if (slot.taken || store.buckets[slot.bucket].skipped) return;
    const at::NoGradGuard no_grad;
    if (!pass.shadow && slot.parameter.grad().defined()) return take(slot);
    ready(slot.bucket);
    slot.taken = true;
    slot.place.zero_();
  }

  // --- the end ----------------------------------------------------------------------------------
  bool flush() {
    const std::lock_guard lock(mutex);
    if (!pass.synchronize) return false;
    if (arrivals == 0 && !pass.shadow && !asks_every_time()) return false;
    if (counting) {
      learn();
    } else if (!pass.shadow) {
      require_all_came();
    }
    complete_usage();
    if (!usage.any()) return false;
    for (auto& slot : store.slots) fill_absent(slot);
    while (next_to_start < store.buckets.size()) start(next_to_start++);
    return true;
  }

  // Learns from the first step of a static graph. A rank that only shadows this step learns what
  // the other ranks use. It learns what it uses itself in its own first step.
  void learn() {
    if (!group_has_learned) {
      ask_for_usage([](const Slot& slot) { return slot.accumulations > 0; });
      usage.wait();
      group_has_learned = true;
    }
    if (pass.shadow) return;
    require_none(
        [this](std::size_t i) { return store.slots[i].accumulations > 0 && !usage.anywhere(i); },
        detail::unknown_to_the_group);
    counted = true;
    for (auto& slot : store.slots) slot.expected = slot.accumulations;
  }

  void require_all_came() {
    if (asks_every_time()) return;
    require_none(
        [this](std::size_t i) {
          const Slot& slot = store.slots[i];
          return slot.accumulations < slot.expected && slot.parameter.requires_grad();
        },
        [this](const auto& names) { return detail::stayed_away(names, options.static_graph); });
  }

  // Throws `error` for the parameters for which `is_wrong` is true, if any. Ends the group too,
  // because peers may be waiting for this rank.
  template <typename IsWrong, typename MakeError>
  void require_none(IsWrong is_wrong, MakeError error) const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < store.slots.size(); ++i) {
      if (is_wrong(i)) names.push_back(store.slots[i].name);
    }
    if (names.empty()) return;
    const UsageError sentence = error(names);
    communicator->abort(sentence.what());
    throw sentence;
  }

  void wait() {
    const std::lock_guard lock(mutex);
    const at::NoGradGuard no_grad;
    for (auto& bucket : store.buckets) bucket.work.wait();
    for (std::size_t i = 0; i < store.slots.size() && !pass.shadow; ++i) settle(i);
  }

  // Gives the parameter its gradient when any rank has used it; else it keeps the gradient it had.
  void settle(std::size_t index) {
    Slot& slot = store.slots[index];
    slot.touched = false;
    if (slot.taken && slot.parameter.requires_grad() && usage.anywhere(index)) {
      slot.parameter.mutable_grad() = slot.place;
    }
  }

  void abandon(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex);
    if (pass.synchronize) communicator->abort(reason);
    arrivals = 0;
  }

  std::shared_ptr<Communicator> communicator;
  GradientReducerOptions options;
  std::vector<NamedTensor> frozen;  // required no gradient when the model was prepared
  detail::BucketStore store;
  Usage usage;
  CommHook hook;
  std::function<void(const std::string&)> guard;
  std::mutex mutex;  // gradients of several devices come on several threads
  GradientPass pass;
  std::size_t arrivals = 0;  // gradients that have come in this step
  std::size_t next_to_start = 0;
  bool usage_is_complete = false;
  bool counting = false;                    // static graph: this step only counts
  bool counted = false;                     // static graph: this rank knows its part
  bool group_has_learned = false;           // static graph: all ranks know what others use
  std::vector<detail::GradientHook> hooks;  // last: destroyed before what they use
};

GradientReducer::GradientReducer(const std::vector<NamedTensor>& parameters,
                                 std::shared_ptr<Communicator> communicator,
                                 GradientReducerOptions options)
    : impl_(std::make_unique<Impl>(parameters, std::move(communicator), std::move(options))) {}

GradientReducer::~GradientReducer() = default;

void GradientReducer::set_guard(std::function<void(const std::string&)> guard) {
  impl_->guard = std::move(guard);
}

void GradientReducer::set_comm_hook(CommHook hook) {
  impl_->hook = std::move(hook);
}

bool GradientReducer::is_reached_by(const at::Tensor& loss) const {
  const auto reached = impl_->walk(loss);
  return std::find(reached.begin(), reached.end(), true) != reached.end();
}

bool GradientReducer::asks_every_time() const {
  return impl_->asks_every_time();
}

void GradientReducer::begin(const GradientPass& pass) {
  impl_->begin(pass);
}

bool GradientReducer::flush() {
  return impl_->flush();
}

void GradientReducer::wait() {
  impl_->wait();
}

bool GradientReducer::finish() {
  if (!impl_->flush()) return impl_->arrivals > 0;
  impl_->wait();
  return true;
}

void GradientReducer::abandon(const std::string& reason) noexcept {
  impl_->abandon(reason);
}

}  // namespace accelerate
