#include "accelerate/parallel/sharded/gathered_parameters.h"

#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"

namespace accelerate::detail {

GatheredParameters::GatheredParameters(std::unique_ptr<GatherTransport> transport,
                                       GatheringOptions options)
    : transport_(std::move(transport)),
      options_(options),
      slots_([this](std::size_t bytes) { return transport_->empty(bytes); }) {}

void GatheredParameters::adopt(Units& units) {
  units_ = &units;
  places_.resize(units.size());
  transport_->adopt(units);
  for (auto& unit : units) {
    unit->full.withdraw(absence_of(*unit));
    unit->watch([this](Unit& touched, const compat::OperatorUse& use) { touch(touched, use); });
  }
}

std::string GatheredParameters::absence_of(const Unit& unit) const {
  return "the parameters of " + unit.describe() + " (" + unit.parameters.front().name +
         ", …) are sharded, and rank " + std::to_string(options_.rank) +
         " has not gathered them: something read them past LibTorch's operators (data_ptr(), an "
         "accessor, torch::save). Open model.summon_full_params() around it";
}

// --- passes --------------------------------------------------------------------------------------

void GatheredParameters::begin_pass(PassKind kind) {
  const std::lock_guard lock(mutex_);
  const auto thread = std::this_thread::get_id();
  if (pass_ && pass_ != PassKind::backward && runner_ != thread) {
    throw UsageError("two threads called one sharded model at the same time on rank " +
                     std::to_string(options_.rank) +
                     "; its units serve one pass at a time. Run the calls one after the other, or "
                     "set full_parameters to shared_pages");
  }
  if (pass_) end_pass();
  transport_->begin_pass();
  pass_ = kind;
  runner_ = thread;
  pass_failed_ = false;
  gathered_.clear();
}

void GatheredParameters::end_pass() {
  const std::lock_guard lock(mutex_);
  if (!pass_) return;
  if (pass_failed_) {  // The program caught the exception of the operator.
    leave_pass();
    if (const auto failure = take_failure()) std::rethrow_exception(failure);
    return;
  }
  const bool has_gathered = !gathered_.empty();
  const bool is_backward = pass_ == PassKind::backward;
  if (has_gathered || !is_backward) transport_->end_pass(*pass_);
  const auto kind = *std::exchange(pass_, std::nullopt);
  if (has_gathered) plans_[static_cast<std::size_t>(kind)] = gathered_;
  if (kind != PassKind::forward) release_all();
}

// Ignores failures of its own steps: the exception that ends the pass says more. Releases all
// units, because no backward follows a failed forward, and ranks may have different units by then.
void GatheredParameters::leave_pass() noexcept {
  const std::lock_guard lock(mutex_);
  if (!pass_) return;
  const auto quietly = [](const auto& step) {
    try {
      step();
    } catch (...) {
    }
  };
  const auto kind = *std::exchange(pass_, std::nullopt);
  quietly([&] { transport_->leave_pass(kind); });
  fail_pass();
  quietly([&] { release_all(); });
}

// Forgets the plans: ranks fail at different places of a pass, so their plans would differ.
void GatheredParameters::fail_pass() {
  pass_failed_ = true;
  plans_ = {};
}

void GatheredParameters::release_all() {
  const std::lock_guard lock(mutex_);
  for (auto& unit : *units_) release(*unit);
}

void GatheredParameters::begin_update() {
  release_all();
  transport_->begin_update();
}

bool GatheredParameters::keeps(const Unit& unit) const {
  const std::lock_guard lock(mutex_);
  return !options_.reshard_after_forward && places_[unit.index].presence == Presence::there;
}

// --- touches -------------------------------------------------------------------------------------

void GatheredParameters::touch(Unit& unit, const compat::OperatorUse& use) {
  const std::lock_guard lock(mutex_);
  Place& place = places_[unit.index];
  // Where gathering takes all ranks, what one rank reads between passes must not change what its
  // passes gather. When a unit could not be gathered, the operator's other inputs must not ask
  // again.
  const bool is_there = place.presence == Presence::there && !use.writes;
  if (is_there && !pass_ && !transport_->is_one_sided()) return;
  if (pass_ && pass_failed_) return;
  place.last_touch = ++touches_;
  place.last_call = use.outermost;
  if (is_there) return;
  // What is made here outlives the caller's inference mode.
  const c10::InferenceMode no_inference(false);
  try {
    fetch(unit, use);
  } catch (const std::exception& error) {
    if (pass_) {  // outside of a pass the operator's own error is enough
      failure_ = std::current_exception();
      fail_pass();
    }
    release(unit);
    unit.full.withdraw(describe(error));
  }
}

void GatheredParameters::fetch(Unit& unit, const compat::OperatorUse& use) {
  require_pass(unit, use);
  if (places_[unit.index].presence != Presence::there) make_room(use);
  if (places_[unit.index].presence == Presence::absent) start(unit);
  finish(unit);
  if (prefetches_after_touch()) prefetch();
}

void GatheredParameters::require_pass(const Unit& unit, const compat::OperatorUse& use) const {
  const std::string rank = "rank " + std::to_string(options_.rank);
  const std::string which = "'" + unit.parameter_at(use.offset).name + "' of " + unit.describe();
  if (use.writes) {
    throw UsageError(std::string(use.name) + " was about to change " + which + " in place on " +
                     rank +
                     "; that copy is discarded soon, and the change with it. If this is an "
                     "optimizer's step, hand the optimizer to prepare(); else change it inside "
                     "summon_full_params(), or before prepare()");
  }
  if (pass_ || transport_->is_one_sided()) return;
  throw UsageError(std::string(use.name) + " would read " + which + " on " + rank +
                       " outside of forward and backward. The other ranks do not take part, so the "
                       "weights cannot "
                       "be gathered. Call model(x) or model.forward(x) of the prepared model, not "
                       "model->forward(x). For other reads open summon_full_params() on all ranks. "
                       "Convert a model "
                       "before prepare()",
                   error_name::kNotPrepared);
}

// Releases units until there is room for one more. The root unit stays, and so do the units that
// the user's present call uses.
void GatheredParameters::make_room(const compat::OperatorUse& use) {
  if (!options_.reshard_after_forward) return;
  const auto may_go = [&](const auto& unit) {
    const Place& place = places_[unit->index];
    return !unit->name().empty() && place.presence == Presence::there &&
           place.last_call != use.outermost;
  };
  for (;;) {
    std::vector<Unit*> there;
    for (auto& unit : *units_) {
      if (may_go(unit)) there.push_back(unit.get());
    }
    if (there.size() < kStaying) return;
    release(**std::ranges::min_element(
        there, {}, [this](const Unit* unit) { return places_[unit->index].last_touch; }));
  }
}

void GatheredParameters::start(Unit& unit) {
  Place& place = places_[unit.index];
  place.slot = slots_.take(unit.full_bytes());
  gathered_.push_back(unit.index);
  transport_->start(unit, place.slot, planned(gathered_.size()));
  place.presence = Presence::coming;
}

void GatheredParameters::finish(Unit& unit) {
  Place& place = places_[unit.index];
  if (place.presence != Presence::coming) return;
  transport_->finish(unit);
  unit.full.lend(place.slot.data_ptr());
  place.presence = Presence::there;
  tell(ShardEvent::Kind::gather, unit);
}

void GatheredParameters::release(Unit& unit) {
  Place& place = places_[unit.index];
  if (place.presence == Presence::coming) transport_->finish(unit);
  const auto before = std::exchange(place.presence, Presence::absent);
  slots_.give_back(std::exchange(place.slot, {}));
  if (before == Presence::absent) return;
  unit.full.withdraw(absence_of(unit));
  tell(ShardEvent::Kind::release, unit);
}

// --- ahead of time -------------------------------------------------------------------------------

// Returns the unit that the last pass of this kind gathered at `position`, if this pass has
// gathered the same units so far.
Promise GatheredParameters::planned(std::size_t position) const {
  if (!pass_) return std::nullopt;
  const auto& plan = plans_[static_cast<std::size_t>(*pass_)];
  if (position >= plan.size() || !std::equal(gathered_.begin(), gathered_.end(), plan.begin())) {
    return std::nullopt;
  }
  return plan[position];
}

bool GatheredParameters::prefetches_after_touch() const {
  return pass_ == PassKind::backward ? options_.backward_prefetch == BackwardPrefetch::BACKWARD_PRE
                                     : options_.forward_prefetch;
}

void GatheredParameters::prefetch() {
  if (!transport_->comes_meanwhile()) return;
  const auto next = planned(gathered_.size());
  if (!next || places_[*next].presence != Presence::absent) return;
  const bool another_comes =
      std::ranges::find(places_, Presence::coming, &Place::presence) != places_.end();
  if (another_comes) return;
  tell(ShardEvent::Kind::prefetch, *(*units_)[*next]);
  start(*(*units_)[*next]);
}

void GatheredParameters::after_gradients(const Unit&) {
  const std::lock_guard lock(mutex_);
  if (pass_ == PassKind::backward &&
      options_.backward_prefetch == BackwardPrefetch::BACKWARD_POST) {
    prefetch();
  }
}

}  // namespace accelerate::detail
