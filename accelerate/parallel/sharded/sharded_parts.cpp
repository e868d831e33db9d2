#include "accelerate/parallel/sharded/sharded_parts.h"

#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/lost_pages.h"
#include "accelerate/comm/operations.h"
#include "accelerate/parallel/sharded/update_count.h"

namespace accelerate::detail {

void ShardedModel::abort(const std::string& reason) const noexcept {
  for (auto* group : {groups.world.get(), groups.shard.get(), groups.replicate.get()}) {
    if (group != nullptr && group->size() > 1) group->abort(reason);
  }
  if (given->size() > 1) given->abort(reason);
}

ShardedParts::ShardedParts(ShardedModel& model, const ModuleView& view) : model_(model) {
  std::unordered_map<const void*, const UnitParameter*> parameters;
  for (const auto& unit : model_.units)
    for (const auto& parameter : unit->parameters)
      for (const auto& leaf : parameter.leaves)
        parameters.emplace(leaf.unsafeGetTensorImpl(), &parameter);
  for (const auto& [name, leaf] : without_duplicates(view.parameters)) {
    const auto found = parameters.find(leaf.unsafeGetTensorImpl());
    if (found == parameters.end()) continue;
    const UnitParameter& parameter = *found->second;
    by_leaf_.emplace(found->first, shards_.size());
    if (locals_.insert(parameter.local.unsafeGetTensorImpl()).second)
      marks_.emplace_back(shards_.size(), mark(parameter.local));
    shards_.push_back({.name = name,
                       .local = parameter.local,
                       .begin = parameter.piece.in_parameter,
                       .shape = parameter.shape});
  }
}

// Reading values that live in files would read whole pages of a disk.
WriteMark ShardedParts::mark(const at::Tensor& local) const {
  return WriteMark(local, !model_.store || !model_.store->holds(local));
}

void ShardedParts::require_untouched() const {
  require_whole_update();
  const int rank = model_.groups.world->rank();
  for (const auto& unit : model_.units) unit->require_untouched(rank);
  for (const auto& [shard, mark] : marks_) {
    if (!mark.is_written()) continue;
    throw UsageError(
        "rank " + std::to_string(rank) + " changed its shard of '" + shards_[shard].name +
            "' in place, but not by a prepared optimizer. The other ranks do not get "
            "this change. Call step() of the optimizer that prepare() returned, not of "
            "the original. Change whole parameters inside "
            "summon_full_params({.writeback = true})",
        error_name::kNotPrepared);
  }
}

void ShardedParts::claim(const std::string& refusal) {
  if (model_.store) refuse_together(*model_.groups.world, refusal);
  claimed_ = true;
}

void ShardedParts::require_claimed() const {
  const auto* parameter = claimed_ ? nullptr : model_.gradients->holding_sum();
  if (parameter == nullptr) return;
  throw UsageError(
      "no prepared optimizer holds the parameters of this sharded model ('" + parameter->name +
          "', …). The last step's gradients are still there, or an unprepared optimizer "
          "took them. Pass the optimizer to prepare() together with the model",
      error_name::kNotPrepared);
}

const NamedShard* ShardedParts::shard_of(const at::Tensor& leaf) const {
  const auto found = by_leaf_.find(leaf.unsafeGetTensorImpl());
  return found == by_leaf_.end() ? nullptr : &shards_[found->second];
}

Communicator* ShardedParts::ranks_of(const at::Tensor& parameter) const {
  const void* const tensor = parameter.unsafeGetTensorImpl();
  const bool is_divided = by_leaf_.contains(tensor) || locals_.contains(tensor);
  return is_divided ? model_.groups.shard.get() : nullptr;
}

std::vector<NamedShard> ShardedParts::shards() const {
  require_not_summoned("saving or loading a sharded model");
  return shards_;
}

void ShardedParts::zero_grad(const std::vector<at::Tensor>& locals, bool set_to_none) {
  std::unordered_set<const void*> wanted;
  for (const auto& local : locals) wanted.insert(local.unsafeGetTensorImpl());
  model_.gradients->zero(wanted, set_to_none);
}

void ShardedParts::write_slices(const std::function<void()>& write, std::int64_t updates) {
  require_not_summoned("an update of a sharded model (an optimizer's step)");
  model_.gradients->follow_leaves();
  if (updates != 0) require_whole_update();
  model_.full->begin_update();
  try {
    run_or_abort([&] {
      write();
      if (model_.store) check_for_lost_pages();
      model_.full->end_update(updates);
    });
  } catch (const FileError& error) {
    if (model_.store) lost_update_ = describe(error);
    throw;
  }
  lost_update_.clear();
  updates_ = updates;
  for (auto& unit : model_.units) unit->bump_versions();
  for (auto& [shard, made] : marks_) made = mark(shards_[shard].local);
}

void ShardedParts::require_whole_update() const {
  if (lost_update_.empty()) return;
  throw UsageError(
      "the last update of a sharded model failed halfway, so that a part of its values "
      "is new and the rest old (" +
      lost_update_ + "). Load a checkpoint by load_state() before training goes on");
}

void ShardedParts::run_or_abort(const std::function<void()>& run) const {
  try {
    run();
  } catch (const std::exception& error) {
    model_.abort(describe(error));
    throw;
  }
}

void ShardedParts::require_equal_updates() const {
  require_whole_update();
  detail::require_equal_updates(*model_.groups.world, updates_);
}

void ShardedParts::require_not_summoned(const std::string& what) const {
  if (!model_.whole->are_summoned()) return;
  throw UsageError(what +
                   " inside summon_full_params(): the whole parameters of that scope are separate "
                   "from the ranks' shards. End that scope first");
}

void ShardedParts::begin_summon(const SummonOptions& options) {
  if (options.rank0_only && options.writeback) {
    throw UsageError(
        "summon_full_params: rank0_only and writeback exclude each other: the other ranks would "
        "not have what rank 0 changes. Set writeback = false");
  }
  if (model_.whole->are_summoned()) {
    throw UsageError("summon_full_params inside summon_full_params");
  }
  require_untouched();
  require_equal_updates();
  run_or_abort([&] {
    model_.full->release_all();
    model_.whole->summon(!options.rank0_only || model_.groups.world->rank() == 0);
  });
}

void ShardedParts::end_summon(bool writeback) {
  if (!model_.whole->are_summoned()) return;
  if (!writeback) return void(model_.whole->dismiss());
  const auto flats = model_.whole->take_back();
  update([&] { model_.whole->cut(flats); });
}

}  // namespace accelerate::detail
