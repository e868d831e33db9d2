#include "accelerate/parallel/gradients/gradient_reducer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/gradients/bucket_store.h"
#include "accelerate/parallel/gradients/gradient_hook.h"
#include "accelerate/parallel/gradients/graph_walk.h"
#include "accelerate/parallel/gradients/usage.h"

namespace accelerate {
namespace {

using detail::Bucket;
using detail::Slot;
using detail::Usage;

std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    text += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  return text;
}

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
              {options.limits, options.gradient_as_bucket_view, options.allocate}),
        usage(store.slots.size(), communicator->size()) {
    hooks.reserve(store.slots.size());
    for (std::size_t i = 0; i < store.slots.size(); ++i) {
      hooks.emplace_back(store.slots[i].parameter, [this, i] { on_gradient(i); });
    }
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
    pass.loss.reset();  // the graph is not ours to keep
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

  // What was accumulated since the last synchronisation counts as well.
  template <typename IsUsed>
  void ask_for_usage(IsUsed is_used) {
    std::vector<bool> mine;
    for (const auto& slot : store.slots) {
      mine.push_back(!pass.shadow && (slot.touched || is_used(slot)));
    }
    usage.ask(*communicator, mine);
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

  // --- during backward --------------------------------------------------------------------------
  void on_gradient(std::size_t index) {
    const std::lock_guard lock(mutex);
    Slot& slot = store.slots[index];
    if (guard) guard(slot.name);
    ++arrivals;
    ++slot.accumulations;
    slot.touched = true;
    if (!pass.synchronize || counting) return;
    if (!slot.reached || slot.accumulations > slot.expected) throw came_unexpectedly(slot);
    if (slot.accumulations < slot.expected) return;
    take(slot);
    --store.buckets[slot.bucket].missing;
    if (!pass.in_finish) start_full_buckets();
  }

  UsageError came_unexpectedly(const Slot& slot) const {
    const std::string gradient = "the gradient of '" + slot.name + "' came ";
    if (options.static_graph) {
      return UsageError(gradient + std::to_string(slot.accumulations) +
                        " times in this backward and " + std::to_string(slot.expected) +
                        " times in the first one, but static_graph = true promises that all are "
                        "alike. Leave it out, or use find_unused_parameters = true.");
    }
    if (!slot.reached) {
      return UsageError(gradient +
                        "although the graph of the loss does not lead to it: a node of "
                        "the graph runs a backward of its own (re-entrant activation "
                        "checkpointing), which find_unused_parameters cannot look into. "
                        "Use static_graph = true when all steps are alike.");
    }
    return UsageError(gradient +
                      "twice in one backward. A re-entrant backward (activation checkpointing of "
                      "a shared parameter) is the usual cause; pass static_graph = true when all "
                      "steps are alike, or run the inner one under no_sync.");
  }

  // Moves the leaf's gradient into the bucket: divided by the world size, unless a hook does that.
  void take(Slot& slot) {
    const at::NoGradGuard no_grad;
    const at::Tensor& grad = slot.parameter.grad();
    if (grad.is_sparse()) {
      throw UsageError("the gradient of '" + slot.name +
                       "' is sparse, and data parallel training "
                       "reduces dense gradients. Make the embedding with sparse(false).");
    }
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
      // Ranks that differ fill their buckets in different places of backward; several models'
      // buckets would then mix in different orders, so all wait for the end.
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

  // Once it is known who has what: buckets of which nobody has anything are left out, and in the
  // others something stands for what this rank does not have.
  void complete_usage() {
    if (std::exchange(usage_is_complete, true)) return;
    usage.wait();
    for (auto& bucket : store.buckets) {
      bucket.skipped = std::none_of(bucket.slots.begin(), bucket.slots.end(),
                                    [this](std::size_t i) { return usage.anywhere(i); });
    }
    for (auto& slot : store.slots) {
      if (!slot.reached) fill_absent(slot);
    }
  }

  // A gradient that did not come counts with what had been accumulated before, or zero.
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
      require_as_expected();
    }
    complete_usage();
    if (!usage.any()) return false;
    for (auto& slot : store.slots) fill_absent(slot);
    while (next_to_start < store.buckets.size()) start(next_to_start++);
    return true;
  }

  // The first step of a static graph. A rank that only shadows it learns what the others use, and
  // its own part from its own first step.
  void learn() {
    if (!std::exchange(group_has_learned, true)) {
      ask_for_usage([](const Slot& slot) { return slot.accumulations > 0; });
    }
    if (pass.shadow) return;
    counted = true;
    for (auto& slot : store.slots) slot.expected = slot.accumulations;
  }

  void require_as_expected() {
    std::vector<std::string> names;
    for (const auto& slot : store.slots) {
      if (slot.accumulations >= slot.expected || !slot.parameter.requires_grad()) continue;
      names.push_back(slot.name);
    }
    if (names.empty() || asks_every_time()) return;
    const std::string sentence = absence_sentence(names);
    communicator->abort(sentence);  // the peers may be waiting for these buckets
    throw UsageError(sentence);
  }

  std::string absence_sentence(const std::vector<std::string>& names) const {
    if (options.static_graph) {
      return "these parameters got fewer gradients than in the first step: " + list_names(names) +
             ". static_graph = true promises that all steps are alike; leave it out, or use "
             "find_unused_parameters = true.";
    }
    return "these parameters require gradients but got none in backward: " + list_names(names) +
           ". If forward does not always use them, pass find_unused_parameters = true "
           "(DistributedDataParallelKwargs); else freeze them with requires_grad_(false) or use "
           "their output in the loss.";
  }

  void wait() {
    const std::lock_guard lock(mutex);
    const at::NoGradGuard no_grad;
    for (auto& bucket : store.buckets) bucket.work.wait();
    for (std::size_t i = 0; i < store.slots.size() && !pass.shadow; ++i) settle(i);
  }

  // A parameter that some other rank used has a gradient here too. One that no rank used keeps
  // what it had.
  void settle(std::size_t index) {
    Slot& slot = store.slots[index];
    slot.touched = false;
    if (slot.taken && slot.parameter.requires_grad() && usage.anywhere(index)) {
      slot.parameter.mutable_grad() = slot.place;
    }
  }

  void abandon(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex);
    if (pass.synchronize && arrivals > 0) communicator->abort(reason);
    arrivals = 0;
  }

  std::shared_ptr<Communicator> communicator;
  GradientReducerOptions options;
  std::vector<NamedTensor> frozen;  // had no gradient when the model was prepared
  detail::BucketStore store;
  Usage usage;
  CommHook hook;
  std::function<void(const std::string&)> guard;
  std::mutex mutex;  // gradients of several devices come on several threads
  GradientPass pass;
  std::size_t arrivals = 0;
  std::size_t next_to_start = 0;
  bool usage_is_complete = false;
  bool counting = false;                    // static graph: this step only counts
  bool counted = false;                     // static graph: this rank knows its part
  bool group_has_learned = false;           // static graph: all know what the others use
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

std::vector<std::int64_t> GradientReducer::bucket_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const auto& bucket : impl_->store.buckets) {
    const auto& example = impl_->store.slots[bucket.slots.front()].parameter;
    bytes.push_back(bucket.numel * static_cast<std::int64_t>(example.element_size()));
  }
  return bytes;
}

}  // namespace accelerate
