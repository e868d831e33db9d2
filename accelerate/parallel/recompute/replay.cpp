#include "accelerate/parallel/recompute/replay.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <exception>

#include "accelerate/base/error.h"
#include "accelerate/parallel/recompute/unit_record.h"
#include "accelerate/tensor/compat/deferred_tape.h"
#include "accelerate/tensor/compat/gradient_edge.h"
#include "accelerate/tensor/compat/matrix_products.h"

namespace accelerate::detail {
namespace {

constexpr auto kLeaveItOut =
    "Compute the unit plainly: leave it out of the units of gradient checkpointing";

// Operators that make tensors without naming a type ask for it.
class DefaultDtypeScope {
 public:
  explicit DefaultDtypeScope(at::ScalarType wanted) : before_(c10::get_default_dtype()) {
    const auto type = c10::scalarTypeToTypeMeta(wanted);
    if (type != before_) c10::set_default_dtype(type);
  }
  ~DefaultDtypeScope() {
    if (c10::get_default_dtype() != before_) c10::set_default_dtype(before_);
  }
  DefaultDtypeScope(const DefaultDtypeScope&) = delete;
  DefaultDtypeScope& operator=(const DefaultDtypeScope&) = delete;

 private:
  caffe2::TypeMeta before_;
};

// Takes what the operators of a replay save, and keeps nothing: nobody runs backward through it.
class TakingHooks final : public compat::SavedTensorHooks {
 public:
  explicit TakingHooks(Replay& replay) : replay_(replay) {}
  void call_pack_hook(const at::Tensor& saved) override { replay_.take_saved(saved); }
  at::Tensor call_unpack_hook() override {
    throw UsageError("a unit that is computed again runs a backward of its own. " +
                     std::string(kLeaveItOut));
  }

 private:
  Replay& replay_;
};

}  // namespace

Replay::Replay(UnitRecord& record)
    : record_(record),
      wanted_(record.calls_.size()),
      needed_(record.calls_.size()),
      unused_(record.calls_.size()),
      results_(record.calls_.size()),
      externals_(record.externals_.size()),
      copies_(record.copies_.size()) {}

at::Tensor Replay::value_of(const DroppedTensor& dropped) {
  const std::lock_guard lock(dropped.record->mutex_);
  if (dropped.value.defined()) return dropped.value;
  Replay replay(*dropped.record);
  replay.run();
  at::Tensor value = dropped.value;
  replay.forget_after_backward();
  return value;
}

void Replay::run() {
  find_wanted();
  find_needed();
  find_last_uses();
  const compat::WithoutInterception unseen;
  const compat::SavedTensorScope policy(this);
  const compat::MatrixProducts products(record_.wants_products_);
  const AutocastStateScope autocast;
  try {
    take_moved();
    run_calls();
  } catch (...) {
    restore_random_states();
    throw;
  }
  restore_random_states();
  check_found();
}

// For a graph that is kept, the next backward computes them again.
void Replay::forget_after_backward() {
  std::vector<std::weak_ptr<DroppedTensor>> computed;
  computed.insert(computed.end(), moved_.begin(), moved_.end());
  for (const Wanted& of_call : wanted_)
    computed.insert(computed.end(), of_call.begin(), of_call.end());
  compat::at_end_of_backward([computed = std::move(computed)] {
    for (const auto& weak : computed)
      if (const auto dropped = weak.lock()) dropped->value.reset();
  });
}

void Replay::find_wanted() {
  for (const auto& weak : record_.dropped_) {
    auto dropped = weak.lock();
    if (!dropped || dropped->value.defined()) continue;
    const bool is_external = dropped->source == DroppedTensor::Source::external;
    (is_external ? moved_ : wanted_[dropped->call]).push_back(std::move(dropped));
  }
}

void Replay::find_needed() {
  for (const RecordedCall& call : record_.calls_) kept_.push_back(call.has_kept());
  for (std::size_t i = needed_.size(); i-- > 0;) {
    if (!wanted_[i].empty()) needed_[i] = true;
    if (!needed_[i] || kept_[i]) continue;
    for (const std::size_t other : record_.calls_[i].needs) needed_[other] = true;
  }
}

void Replay::find_last_uses() {
  std::vector<std::size_t> last_use(needed_.size());
  for (std::size_t i = 0; i < needed_.size(); ++i) {
    last_use[i] = i;
    if (!needed_[i] || kept_[i]) continue;
    for (const std::size_t other : record_.calls_[i].needs) last_use[other] = i;
  }
  for (std::size_t i = 0; i < needed_.size(); ++i)
    if (needed_[i]) unused_[last_use[i]].push_back(i);
}

void Replay::run_calls() {
  for (std::size_t i = 0; i < needed_.size(); ++i) {
    if (!needed_[i]) continue;
    try {
      run_call(i);
    } catch (const UsageError&) {
      throw;
    } catch (const std::exception&) {
      throw_with_context<UsageError>(
          "backward could not compute " + record_.name_of(i) +
          " again (gradient checkpointing). If memory ran out, use smaller "
          "units or a smaller batch.");
    }
  }
}

void Replay::run_call(std::size_t number) {
  const RecordedCall& call = record_.calls_[number];
  if (kept_[number]) {
    results_[number] = call.kept;
    if (call.is_kept_changed)
      for (at::Tensor& result : results_[number]) result = result.clone();
  } else {
    compute(number);
  }
  take_results(number);
  for (const std::size_t other : unused_[number]) results_[other].clear();
}

void Replay::compute(std::size_t number) {
  const RecordedCall& call = record_.calls_[number];
  const at::AutoGradMode mode(call.with_gradients);
  call.autocast.set();
  if (call.generator.defined()) set_random_state(call);
  const DefaultDtypeScope dtype(call.default_dtype);
  torch::jit::Stack stack;
  std::size_t place = 0;
  for (const auto& value : call.arguments) {
    stack.push_back(compat::map_tensors(value, [&](const at::Tensor& tensor) {
      return tensor.defined() ? argument(call.tensors[place++]) : tensor;
    }));
  }
  present_ = number;
  saved_ = 0;
  call.op.callBoxed(&stack);
  for (const auto& value : stack) {
    (void)compat::map_tensors(value, [&](const at::Tensor& tensor) {
      results_[number].push_back(tensor);
      return tensor;
    });
  }
}

// A result lacks the gradient that it had in forward if it was kept, or comes from a custom function,
// of which the record has the operators alone.
at::Tensor Replay::argument(const RecordedArgument& argument) {
  if (!argument.origin) {
    at::Tensor value = external(argument.external);
    check_sample(argument, value);
    return value;
  }
  at::Tensor& result = results_[argument.origin->call][argument.origin->result];
  if (argument.geometry) {
    const at::Tensor part = argument.geometry->in(result);
    check_sample(argument, part);
    return argument.requires_grad ? compat::with_gradient(part) : part;
  }
  check_sample(argument, result);
  if (argument.requires_grad && !result.requires_grad()) result = compat::with_gradient(result);
  return result;
}

at::Tensor Replay::external(std::size_t place) {
  at::Tensor& made = externals_[place];
  if (made.defined()) return made;
  const ExternalTensor& original = record_.externals_[place];
  if (!original.copy && !original.home && original.version.has_changed()) {
    refuse("a tensor that it reads was changed in place between forward and backward",
           "Change it after backward, or give the model a copy");
  }
  if (original.is_leaf && !original.copy) return made = original.tensor;
  if (original.copy) {
    made = compat::over_storage(copy(*original.copy).storage(), original.tensor);
  } else {
    made = original.home ? original.tensor.to(*original.home, /*non_blocking=*/true)
                         : original.tensor.detach();
  }
  if (original.requires_grad) made = compat::with_gradient(made);
  return made;
}

// The copy of a storage that this replay writes into.
const at::Tensor& Replay::copy(std::size_t place) {
  at::Tensor& made = copies_[place];
  if (!made.defined()) made = record_.copies_[place].clone();
  return made;
}

void Replay::check_sample(const RecordedArgument& argument, const at::Tensor& value) const {
  if (!argument.sample || sample_values(value) == *argument.sample) return;
  if (argument.origin) refuse_other_values(argument.origin->call);
  refuse("a tensor that it reads was changed between forward and backward, not by an operator",
         "Step optimizers and change parameters after backward");
}

void Replay::refuse_other_values(std::size_t number) const {
  refuse("it is not deterministic: " + record_.calls_[number].op.schema().name() +
             " made other values than in forward. Something writes into its result without an "
             "operator (data_ptr, accessor), or it draws random numbers of its own",
         kLeaveItOut);
}

void Replay::take_moved() {
  for (const auto& dropped : moved_) {
    const at::NoGradGuard no_grad;
    const std::int64_t begin = dropped->geometry.offset - record_.externals_[dropped->place].offset;
    const at::Tensor flat = external(dropped->place).detach().view({-1});
    dropped->value = flat.as_strided(dropped->geometry.sizes, dropped->geometry.strides, begin);
  }
}

void Replay::take_results(std::size_t number) {
  for (const auto& dropped : wanted_[number]) {
    if (dropped->source != DroppedTensor::Source::result) continue;
    const at::Tensor& result = results_[number][dropped->place];
    try {
      const at::NoGradGuard no_grad;
      dropped->value = dropped->geometry.in(result);
    } catch (const c10::Error&) {
      refuse("it is not deterministic: " + record_.name_of(number) +
                 " has other shapes than in forward",
             kLeaveItOut);
    }
    if (dropped->sample && sample_values(dropped->value) != *dropped->sample)
      refuse_other_values(number);
  }
}

std::unique_ptr<compat::SavedTensorHooks> Replay::make_hooks() {
  return std::make_unique<TakingHooks>(*this);
}

void Replay::take_saved(const at::Tensor& saved) {
  const std::size_t place = saved_++;
  for (const auto& dropped : wanted_[present_])
    if (dropped->source == DroppedTensor::Source::saved && dropped->place == place)
      dropped->value = saved.detach();
}

void Replay::check_found() const {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    for (const auto& dropped : wanted_[i]) {
      if (dropped->value.defined() && dropped->value.sizes() == dropped->geometry.sizes) continue;
      refuse("it is not deterministic: " + record_.calls_[i].op.schema().name() +
                 " saves other tensors for its gradient than in forward",
             kLeaveItOut);
    }
  }
}

void Replay::set_random_state(const RecordedCall& call) {
  at::Generator generator = call.generator;
  const std::lock_guard lock(generator.mutex());
  const bool is_known = std::ranges::any_of(
      random_states_, [&](const auto& known) { return known.first == generator; });
  if (!is_known) random_states_.emplace_back(generator, generator.get_state());
  generator.set_state(call.random_state);
}

void Replay::restore_random_states() {
  for (auto& [generator, state] : random_states_) {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(state);
  }
  random_states_.clear();
}

void Replay::refuse(const std::string& what, const std::string& cure) const {
  throw UsageError("backward cannot compute " + record_.unit() +
                   " again (gradient checkpointing): " + what + ". " + cure + ".");
}

}  // namespace accelerate::detail
