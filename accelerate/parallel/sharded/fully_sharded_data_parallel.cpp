#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/heap.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/operations.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/parallel/gradients/arming.h"
#include "accelerate/parallel/sharded/gradient_shards.h"
#include "accelerate/parallel/sharded/initial_values.h"
#include "accelerate/parallel/sharded/sharding_plan.h"
#include "accelerate/parallel/sharded/update_count.h"
#include "accelerate/parallel/sharded/whole_parameters.h"
#include "accelerate/parallel/sharded/wrap_policy.h"
#include "accelerate/tensor/compat/leaf_memory.h"
#include "accelerate/tensor/scalar_type.h"
#include "accelerate/tensor/write_mark.h"

namespace accelerate {
namespace {

using detail::PassKind;
using detail::Unit;
using detail::UnitParameter;

// Describes what must be the same on all ranks. Ranks that differ would cut different units, or
// wait for each other for ever.
std::string describe(const ModuleView& view, const ShardingOptions& options) {
  std::string text = detail::text_of(options.settings);
  if (detail::is_hybrid(options.settings.sharding_strategy) &&
      options.settings.shard_group_size == 0)
    text += ", " + std::to_string(options.ranks_of_host) + " ranks on this host";
  using Place = std::tuple<const void*, std::int64_t>;  // Storage and offset.
  std::map<Place, std::string> seen;
  for (const auto& [name, tensor] : state_dict(view)) {
    text += ", " + name + " " + detail::describe_tensor(tensor) +
            (tensor.requires_grad() ? "" : " frozen");
    if (!tensor.defined() || tensor.numel() == 0 || !tensor.has_storage()) continue;
    const Place place(tensor.storage().unsafeGetStorageImpl(), tensor.storage_offset());
    const auto first = seen.emplace(place, name);
    if (!first.second) text += " tied to " + first.first->second;
  }
  return text;
}

// Joins the first three names, and says how many more there are.
std::string some_of(std::vector<std::string> names) {
  constexpr std::size_t kShown = 3;
  const std::size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  return join(names, ", ") + (more == 0 ? "" : " and " + std::to_string(more) + " more parameters");
}

NamedShard named(const UnitParameter& parameter) {
  return {.name = parameter.name,
          .local = parameter.local,
          .begin = parameter.piece.in_parameter,
          .shape = parameter.shape};
}

}  // namespace

struct FullyShardedDataParallel::Impl {
  Impl(const ModuleView& view, std::shared_ptr<Communicator> group, const ShardingOptions& given)
      : communicator(std::move(group)), options(given), class_name(view.class_name) {
    detail::require_agreement(*communicator, "prepare(" + view.class_name + ")",
                              describe(view, options));
    groups = detail::make_groups(*communicator, options.settings, options.ranks_of_host);
    units = detail::make_units(view, options.settings,
                               {groups.shard->size(), groups.shard->rank(), options.device});
    auto chosen = detail::choose_full_parameters(groups, options.settings, options.device);
    full = std::move(chosen.full);
    full_name = std::move(chosen.name);
    full->observer = [this](ShardEvent::Kind kind, const Unit& unit) { tell(kind, unit); };
    take_over(view);
    whole = std::make_unique<detail::WholeParameters>(units, groups, options.device);
    gradients = std::make_unique<detail::GradientShards>(
        units, groups,
        detail::GradientShards::Callbacks{
            .guard = [this](const std::string& name) { arming.check(name); },
            .complete = [this](const Unit& unit) { full->after_gradients(unit); },
            .reduced = [this](const Unit& unit) { tell(ShardEvent::Kind::reduce, unit); },
            .needs_all_ranks = who_must_take_part()});
  }

  // Returns which units take all ranks in a backward: those that are not there and must be
  // gathered. Units that stay from forward to backward are among them where an evaluation, or
  // another backward, has released them.
  [[nodiscard]] std::function<bool(const Unit&)> who_must_take_part() const {
    if (!full->gathers_together()) return nullptr;
    return [this](const Unit& unit) { return !full->keeps(unit); };
  }

  // --- from whole leaves to slices ---------------------------------------------------------------
  void take_over(const ModuleView& view) {
    const at::NoGradGuard no_grad;
    const detail::ValuesOptions values{options.device, options.settings.sync_module_states};
    const auto unsharded = detail::whole_tensors(view, units);
    const detail::FormerMemory former(units);
    detail::require_values(*groups.world, units, unsharded, values);
    full->adopt(units);
    for (auto& unit : units) {
      detail::fill_slice(*groups.world, *unit, values);
      unit->adopt_leaves();
      for (const auto& parameter : unit->parameters) remember(*unit, parameter);
    }
    put_in_order(view);
    full->end_update(updates);
    note_locals();
    detail::take_over(*groups.world, unsharded, values);
    cast_buffers(view);
    return_freed_memory();  // of the whole model
    warn_of_views(former.still_held(unsharded));
  }

  void warn_of_views(const std::vector<std::string>& names) const {
    if (names.empty() || groups.world->rank() != 0) return;
    get_logger("accelerate.parallel")
        .warning("other tensors still lie in the memory that " + some_of(names) +
                 " had before prepare(), and keep the initial values while the parameters are "
                 "trained. Where the model computes with one (decoder = encoder->weight.t() in a "
                 "constructor), make it in forward(); a checkpoint that is still held does no harm "
                 "but takes memory");
  }

  void remember(Unit& unit, const UnitParameter& parameter) {
    for (const auto& leaf : parameter.leaves) {
      places.emplace(leaf.unsafeGetTensorImpl(), std::pair(&unit, &parameter));
    }
  }

  // Puts the local parameters into the order of the model, which is not the order of the units.
  void put_in_order(const ModuleView& view) {
    for (const auto& [name, leaf] : view.parameters) {
      const auto found = places.find(leaf.unsafeGetTensorImpl());
      if (found == places.end()) continue;
      const at::Tensor& local = found->second.second->local;
      if (locals.insert(local.unsafeGetTensorImpl()).second) in_order.push_back({name, local});
    }
  }

  void cast_buffers(const ModuleView& view) const {
    if (!options.settings.buffer_dtype) return;
    const auto type = to_scalar_type(*options.settings.buffer_dtype);
    for (const auto& buffer : detail::buffers_to_cast(view, options.settings)) {
      compat::materialise_(buffer, buffer.to(type));
    }
  }

  // --- passes ------------------------------------------------------------------------------------
  void before_forward(bool grad_enabled) {
    if (whole->are_summoned()) {
      throw UsageError(
          "a sharded model was called while summon_full_params() lasts, in which its parameters "
          "are ordinary tensors: end that scope first");
    }
    require_untouched();
    full->begin_pass(grad_enabled ? PassKind::forward : PassKind::evaluation);
    arming.before_forward(grad_enabled);
  }

  void require_untouched() const {
    for (const auto& unit : units) unit->require_untouched(groups.world->rank());
    for (std::size_t i = 0; i < in_order.size(); ++i) {
      if (!local_marks[i].is_written()) continue;
      throw UsageError("rank " + std::to_string(groups.world->rank()) + " changed its shard of '" +
                       in_order[i].name +
                       "' in place, but not by a prepared optimizer. The other ranks do not get "
                       "this change. Call step() of the optimizer that prepare() returned, not of "
                       "the original. Change whole parameters inside "
                       "summon_full_params({.writeback = true})");
    }
  }

  void note_locals() {
    local_marks.clear();
    for (const auto& item : in_order) local_marks.emplace_back(item.tensor);
  }

  void begin_backward(const BackwardPass& pass) {
    if (const auto known = full->take_failure()) std::rethrow_exception(known);
    has_begun = true;
    arming.begin_backward(pass.retain_graph);
    require_untouched();
    if (arming.synchronizes()) require_claimed();
    full->begin_pass(PassKind::backward);
    gradients->begin(arming.synchronizes(), pass.loss);
  }

  // Throws UsageError when gradients of the last step are still there and no prepared optimizer has
  // come. They would add up for ever. An optimizer that is not prepared does not call update(),
  // which brings changes of local parameters to the other ranks.
  void require_claimed() {
    const auto* parameter = claimed ? nullptr : gradients->holding_sum();
    if (parameter == nullptr) return;
    throw UsageError("no prepared optimizer holds the parameters of this sharded model ('" +
                     parameter->name +
                     "', …). The last step's gradients are still there, or an unprepared optimizer "
                     "took them. Pass the optimizer to prepare() together with the model");
  }

  void finish_backward() {
    const auto unused = gradients->finish();
    full->end_pass();
    if (arming.synchronizes()) warn_of_unused(unused);
    arming.finish_backward();
    has_begun = false;
  }

  void warn_of_unused(const std::optional<std::vector<std::string>>& names) {
    const bool first = names && !std::exchange(warned, true);
    if (!first || names->empty() || groups.world->rank() != 0) return;
    get_logger("accelerate.parallel")
        .warning_once(
            "no rank computed a gradient of " + join(*names, ", ") +
            " in the first step. Where they belong to a part that no rank ran (a branch, an expert "
            "that nobody chose), that is as it should be. Else detach() or a NoGradGuard on their "
            "way to the loss is the likely cause, or a weight that is tied by assignment "
            "(head->weight = embedding->weight), which leaves the old parameter registered: "
            "replace_module or register the shared one in its place");
  }

  void abandon_backward(const std::string& reason) {
    // All ranks notice misuse before anything is sent, so the group need not end.
    const bool takes_part =
        std::exchange(has_begun, false) && (arming.was_armed() || gradients->is_running());
    arming.abandon_backward();
    if (arming.synchronizes() && takes_part) abort(reason);
    gradients->abandon();
    full->leave_pass();
    (void)full->take_failure();
  }

  void abort(const std::string& reason) noexcept {
    for (auto* group : {groups.world.get(), groups.shard.get(), groups.replicate.get()}) {
      if (group != nullptr && group->size() > 1) group->abort(reason);
    }
    if (communicator->size() > 1) communicator->abort(reason);
  }

  // Runs `run`. When it throws, ends the group, because the other ranks wait for this one.
  void run_or_abort(const std::function<void()>& run) {
    try {
      run();
    } catch (const std::exception& error) {
      abort(accelerate::describe(error));
      throw;
    }
  }

  // --- updates -----------------------------------------------------------------------------------
  void update(const std::function<void()>& write) { write_slices(write, updates + 1); }

  // Counts updates from 0 again.
  void replace(const std::function<void()>& write) { write_slices(write, 0); }

  void write_slices(const std::function<void()>& write, std::int64_t count) {
    require_not_summoned("an update of a sharded model (an optimizer's step)");
    gradients->follow_leaves();
    full->begin_update();
    run_or_abort(write);
    updates = count;
    full->end_update(updates);
    for (auto& unit : units) unit->bump_versions();
    note_locals();
  }

  void require_equal_updates() const { detail::require_equal_updates(*groups.world, updates); }

  void require_not_summoned(const std::string& what) const {
    if (!whole->are_summoned()) return;
    throw UsageError(what +
                     " inside summon_full_params(): the whole parameters of that scope are "
                     "separate from the ranks' shards. End that scope first");
  }

  // --- whole parameters for the user -------------------------------------------------------------
  void begin_summon(const SummonOptions& summon) {
    if (summon.rank0_only && summon.writeback) {
      throw UsageError(
          "summon_full_params: rank0_only and writeback exclude each other: the other ranks would "
          "not have what rank 0 changes. Set writeback = false");
    }
    if (whole->are_summoned()) throw UsageError("summon_full_params inside summon_full_params");
    require_untouched();
    require_equal_updates();
    run_or_abort([&] {
      full->release_all();
      whole->summon(!summon.rank0_only || groups.world->rank() == 0);
    });
  }

  void end_summon(bool writeback) {
    if (!whole->are_summoned()) return;
    if (!writeback) return void(whole->dismiss());
    const auto flats = whole->take_back();
    update([&] { whole->cut(flats); });
  }

  void tell(ShardEvent::Kind kind, const Unit& unit) const {
    if (observer) observer({kind, unit.name()});
  }

  std::shared_ptr<Communicator> communicator;
  ShardingOptions options;
  std::string class_name;
  detail::ShardGroups groups;
  detail::Units units;
  std::unordered_map<const void*, std::pair<Unit*, const UnitParameter*>> places;  // By leaf.
  std::unordered_set<const void*> locals;
  std::vector<NamedTensor> in_order;  // Local parameters, in the model's order.
  std::vector<detail::WriteMark> local_marks;
  std::string full_name;
  std::function<void(const ShardEvent&)> observer;
  detail::Arming arming;
  bool has_begun = false;  // A backward has begun, and no failure of the forward ended it.
  bool claimed = false;
  std::int64_t updates = 0;  // Of the parameters, since they were prepared or loaded.
  bool warned = false;
  std::unique_ptr<detail::FullParameters> full;
  std::unique_ptr<detail::WholeParameters> whole;
  std::unique_ptr<detail::GradientShards> gradients;  // Last: its hooks use the rest.
};

FullyShardedDataParallel::FullyShardedDataParallel(const ModuleView& view,
                                                   std::shared_ptr<Communicator> communicator,
                                                   const ShardingOptions& options)
    : impl_(std::make_unique<Impl>(view, std::move(communicator), options)) {}

FullyShardedDataParallel::~FullyShardedDataParallel() = default;

void FullyShardedDataParallel::before_forward(bool grad_enabled) {
  impl_->before_forward(grad_enabled);
}

void FullyShardedDataParallel::after_forward() {
  impl_->full->end_pass();
}

void FullyShardedDataParallel::leave_forward() noexcept {
  impl_->full->leave_pass();
}

std::exception_ptr FullyShardedDataParallel::take_failure() noexcept {
  return impl_->full->take_failure();
}

void FullyShardedDataParallel::begin_backward(const BackwardPass& pass) {
  impl_->begin_backward(pass);
}

void FullyShardedDataParallel::finish_backward() {
  impl_->finish_backward();
}

void FullyShardedDataParallel::abandon_backward(const at::Tensor&, const std::string& reason) {
  impl_->abandon_backward(reason);
}

void FullyShardedDataParallel::set_synchronize(bool synchronize) {
  impl_->arming.set_synchronize(synchronize);
}

bool FullyShardedDataParallel::synchronize() const {
  return impl_->arming.synchronize();
}

void FullyShardedDataParallel::trigger_sync_in_backward() {
  impl_->arming.trigger();
}

void FullyShardedDataParallel::register_comm_hook(CommHook) {
  throw UsageError(
      "a sharded model takes no communication hook: its gradients travel unit by unit to the ranks "
      "that own them. Set reduce_dtype of mixed_precision_policy to send fewer bytes");
}

const std::shared_ptr<Communicator>& FullyShardedDataParallel::communicator() const {
  return impl_->communicator;
}

DistributedDataParallel& FullyShardedDataParallel::replicated(const std::string& feature) {
  throw UsageError(feature + " needs a model that every rank has whole, and " + impl_->class_name +
                   " is sharded (FSDP): train it without fsdp_plugin, or do not use " + feature);
}

std::optional<at::ScalarType> FullyShardedDataParallel::input_dtype() const {
  const auto& type = impl_->options.settings.param_dtype;
  return type ? std::optional(to_scalar_type(*type)) : std::nullopt;
}

std::optional<at::ScalarType> FullyShardedDataParallel::output_dtype() const {
  const auto& type = impl_->options.settings.output_dtype;
  return type ? std::optional(to_scalar_type(*type)) : std::nullopt;
}

at::Tensor FullyShardedDataParallel::local_parameter(const at::Tensor& leaf) const {
  const auto found = impl_->places.find(leaf.unsafeGetTensorImpl());
  return found == impl_->places.end() ? leaf : found->second.second->local;
}

Communicator* FullyShardedDataParallel::ranks_of(const at::Tensor& parameter) const {
  const void* const tensor = parameter.unsafeGetTensorImpl();
  const bool is_divided = impl_->places.contains(tensor) || impl_->locals.contains(tensor);
  return is_divided ? impl_->groups.shard.get() : nullptr;
}

std::optional<NamedShard> FullyShardedDataParallel::shard_of(const at::Tensor& leaf) const {
  const auto found = impl_->places.find(leaf.unsafeGetTensorImpl());
  if (found == impl_->places.end()) return std::nullopt;
  return named(*found->second.second);
}

void FullyShardedDataParallel::claim() {
  impl_->claimed = true;
}

void FullyShardedDataParallel::update(const std::function<void()>& write) {
  impl_->update(write);
}

void FullyShardedDataParallel::replace(const std::function<void()>& write) {
  impl_->replace(write);
}

void FullyShardedDataParallel::require_equal_updates() const {
  impl_->require_equal_updates();
}

void FullyShardedDataParallel::require_not_summoned(const std::string& what) const {
  impl_->require_not_summoned(what);
}

void FullyShardedDataParallel::follow_leaves() {
  impl_->gradients->follow_leaves();
}

bool FullyShardedDataParallel::has_lost_gradients() const {
  return impl_->gradients->has_lost();
}

void FullyShardedDataParallel::zero_grad(const std::vector<at::Tensor>& locals, bool set_to_none) {
  std::unordered_set<const void*> wanted;
  for (const auto& local : locals) wanted.insert(local.unsafeGetTensorImpl());
  impl_->gradients->zero(wanted, set_to_none);
}

void FullyShardedDataParallel::begin_summon(const SummonOptions& options) {
  impl_->begin_summon(options);
}

void FullyShardedDataParallel::end_summon(bool writeback) {
  impl_->end_summon(writeback);
}

ShardedMemory FullyShardedDataParallel::memory() const {
  ShardedMemory memory;
  for (const auto& unit : impl_->units) memory.slice_bytes += unit->master.nbytes();
  memory.full_bytes = impl_->full->bytes();
  memory.peak_full_bytes = impl_->full->peak_bytes();
  memory.gradient_bytes = impl_->gradients->bytes();
  memory.peak_gradient_bytes = impl_->gradients->peak_bytes();
  return memory;
}

void FullyShardedDataParallel::set_observer(std::function<void(const ShardEvent&)> observer) {
  impl_->observer = std::move(observer);
}

std::string_view FullyShardedDataParallel::full_parameters() const {
  return impl_->full_name;
}

}  // namespace accelerate
