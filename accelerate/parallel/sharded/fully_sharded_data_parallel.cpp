#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_error.h"
#include "accelerate/base/heap.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/operations.h"
#include "accelerate/parallel/sharded/initial_values.h"
#include "accelerate/parallel/sharded/sharded_parts.h"
#include "accelerate/parallel/sharded/sharding_plan.h"
#include "accelerate/parallel/sharded/wrap_policy.h"
#include "accelerate/tensor/compat/leaf_memory.h"
#include "accelerate/tensor/scalar_type.h"

namespace accelerate {
namespace {

using detail::PassKind;
using detail::Unit;

// Describes what must be the same on all ranks, besides the settings that prepare() compares. Ranks
// that differ would cut different units, or wait for each other for ever.
std::string describe(const ModuleView& view, const ResolvedFsdpOptions& settings) {
  std::string text = "shard_group_size " + std::to_string(settings.shard_group_size);
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

class FullyShardedDataParallel final : public ParallelEngine, public Inspection {
 public:
  FullyShardedDataParallel(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                           const ResolvedFsdpOptions& settings, c10::Device device);

  [[nodiscard]] detail::ShardedParts& parts() { return *parts_; }

  void before_forward(bool grad_enabled) override;
  void after_forward() override { model_.full->end_pass(); }
  void leave_forward() noexcept override { model_.full->leave_pass(); }
  [[nodiscard]] std::exception_ptr take_failure() noexcept override {
    return model_.full->take_failure();
  }
  void begin_backward(const BackwardPass& pass) override;
  void finish_backward() override;
  void abandon_backward(const at::Tensor& loss, const std::string& reason) override;
  /// Throws UsageError: gradients travel unit by unit in the plugin's reduce type.
  void register_comm_hook(CommHook hook) override;

  [[nodiscard]] ShardedMemory memory() const override;
  void set_observer(std::function<void(const ShardEvent&)> observer) override {
    observer_ = std::move(observer);
  }
  [[nodiscard]] std::string_view full_parameters() const override { return full_name_; }

 private:
  void take_over(const ModuleView& view, const ResolvedFsdpOptions& settings, c10::Device device);
  [[nodiscard]] detail::GradientShards::Callbacks callbacks();
  void warn_of_views(const std::vector<std::string>& names) const;
  void warn_of_unused(const std::optional<std::vector<std::string>>& names);
  void tell(ShardEvent::Kind kind, const Unit& unit) const {
    if (observer_) observer_({kind, unit.name()});
  }

  std::string full_name_;
  std::function<void(const ShardEvent&)> observer_;
  bool has_begun_ = false;  // A backward has begun, and no failure of the forward ended it.
  bool warned_ = false;
  detail::ShardedModel model_;
  std::optional<detail::ShardedParts> parts_;
};

FullyShardedDataParallel::FullyShardedDataParallel(const ModuleView& view,
                                                   std::shared_ptr<Communicator> communicator,
                                                   const ResolvedFsdpOptions& settings,
                                                   c10::Device device)
    : ParallelEngine(std::move(communicator)) {
  auto& [given, groups, store, units, full, whole, gradients] = model_;
  given = this->communicator();
  detail::require_agreement(*given, "prepare(" + view.class_name + ")", describe(view, settings));
  groups = detail::make_groups(*given, settings);
  units = detail::make_units(view, settings, {groups.shard->size(), groups.shard->rank(), device});
  store = detail::offload_units(units, groups, settings);
  auto chosen = detail::choose_full_parameters(groups, settings, device);
  full = std::move(chosen.full);
  full_name_ = std::move(chosen.name);
  full->observer = [this](ShardEvent::Kind kind, const Unit& unit) { tell(kind, unit); };
  take_over(view, settings, device);
  whole = std::make_unique<detail::WholeParameters>(units, groups, device);
  gradients = std::make_unique<detail::GradientShards>(units, groups, callbacks());
}

// Turns whole leaves into slices.
void FullyShardedDataParallel::take_over(const ModuleView& view,
                                         const ResolvedFsdpOptions& settings, c10::Device device) {
  const at::NoGradGuard no_grad;
  auto& world = *model_.groups.world;
  const detail::ValuesOptions values{device, settings.sync_module_states};
  const auto unsharded = detail::whole_tensors(view, model_.units);
  const detail::FormerMemory former(model_.units);
  detail::require_values(world, model_.units, unsharded, values);
  model_.full->adopt(model_.units);
  try {
    for (auto& unit : model_.units) {
      detail::fill_slice(world, *unit, values);
      unit->adopt_leaves();
      if (model_.store) return_freed_memory();  // Of this unit: all of them would be too many.
    }
  } catch (const FileError& error) {  // Of a disk; the other ranks would wait.
    model_.abort(describe(error));
    throw;
  }
  model_.full->end_update(0);
  parts_.emplace(model_, view);
  detail::take_over(world, unsharded, values);
  if (settings.buffer_dtype) {
    const auto type = to_scalar_type(*settings.buffer_dtype);
    for (const auto& buffer : detail::buffers_to_cast(view, settings))
      compat::materialise_(buffer, buffer.to(type));
  }
  return_freed_memory();  // of the whole model
  warn_of_views(former.still_held(unsharded));
}

void FullyShardedDataParallel::warn_of_views(const std::vector<std::string>& names) const {
  if (names.empty() || model_.groups.world->rank() != 0) return;
  get_logger("accelerate.parallel")
      .warning("other tensors still lie in the memory that " + some_of(names) +
               " had before prepare(), and keep the initial values while the parameters are "
               "trained. Where the model computes with one (decoder = encoder->weight.t() in a "
               "constructor), make it in forward(); a checkpoint that is still held does no harm "
               "but takes memory");
}

detail::GradientShards::Callbacks FullyShardedDataParallel::callbacks() {
  detail::GradientShards::Callbacks calls{
      .guard = [this](const std::string& name) { arming_.check(name); },
      .complete = [this](const Unit& unit) { model_.full->after_gradients(unit); },
      .reduced = [this](const Unit& unit) { tell(ShardEvent::Kind::reduce, unit); },
      .needs_all_ranks = nullptr};
  // Units that are not there must be gathered. Units that stay from forward to backward are among
  // them where an evaluation, or another backward, has released them.
  if (model_.full->gathers_together())
    calls.needs_all_ranks = [this](const Unit& unit) { return !model_.full->keeps(unit); };
  return calls;
}

void FullyShardedDataParallel::before_forward(bool grad_enabled) {
  if (model_.whole->are_summoned()) {
    throw UsageError(
        "a sharded model was called while summon_full_params() lasts, in which its parameters are "
        "ordinary tensors: end that scope first");
  }
  parts_->require_untouched();
  model_.full->begin_pass(grad_enabled ? PassKind::forward : PassKind::evaluation);
  arming_.before_forward(grad_enabled);
}

void FullyShardedDataParallel::begin_backward(const BackwardPass& pass) {
  if (const auto known = take_failure()) std::rethrow_exception(known);
  has_begun_ = true;
  arming_.begin_backward(pass.retain_graph);
  parts_->require_untouched();
  if (arming_.synchronizes()) parts_->require_claimed();
  model_.full->begin_pass(PassKind::backward);
  model_.gradients->begin(arming_.synchronizes(), pass.loss);
}

void FullyShardedDataParallel::finish_backward() {
  const auto unused = model_.gradients->finish();
  model_.full->end_pass();
  if (arming_.synchronizes()) warn_of_unused(unused);
  arming_.finish_backward();
  has_begun_ = false;
}

void FullyShardedDataParallel::warn_of_unused(
    const std::optional<std::vector<std::string>>& names) {
  const bool first = names && !std::exchange(warned_, true);
  if (!first || names->empty() || model_.groups.world->rank() != 0) return;
  get_logger("accelerate.parallel")
      .warning_once(
          "no rank computed a gradient of " + join(*names, ", ") +
          " in the first step. Where they belong to a part that no rank ran (a branch, an expert "
          "that nobody chose), that is as it should be. Else detach() or a NoGradGuard on their "
          "way to the loss is the likely cause, or a weight that is tied by assignment "
          "(head->weight = embedding->weight), which leaves the old parameter registered: "
          "replace_module or register the shared one in its place");
}

void FullyShardedDataParallel::abandon_backward(const at::Tensor&, const std::string& reason) {
  // All ranks notice misuse before anything is sent, so the group need not end.
  const bool takes_part =
      std::exchange(has_begun_, false) && (arming_.was_armed() || model_.gradients->is_running());
  arming_.abandon_backward();
  if (arming_.synchronizes() && takes_part) model_.abort(reason);
  model_.gradients->abandon();
  model_.full->leave_pass();
  (void)take_failure();
}

void FullyShardedDataParallel::register_comm_hook(CommHook) {
  throw UsageError(
      "a sharded model takes no communication hook: its gradients travel unit by unit to the ranks "
      "that own them. Set reduce_dtype of mixed_precision_policy to send fewer bytes");
}

ShardedMemory FullyShardedDataParallel::memory() const {
  ShardedMemory memory;
  for (const auto& unit : model_.units) memory.slice_bytes += unit->master.nbytes();
  memory.full_bytes = model_.full->bytes();
  memory.peak_full_bytes = model_.full->peak_bytes();
  memory.gradient_bytes = model_.gradients->bytes();
  memory.peak_gradient_bytes = model_.gradients->peak_bytes();
  if (model_.store) {
    memory.disk_bytes = model_.store->bytes();
    memory.bytes_read = model_.store->bytes_read();
    memory.bytes_written = model_.store->bytes_written();
  }
  return memory;
}

}  // namespace

ParallelModel shard_model(const ModuleView& view, std::shared_ptr<Communicator> communicator,
                          const ResolvedFsdpOptions& settings, c10::Device device) {
  const auto engine =
      std::make_shared<FullyShardedDataParallel>(view, std::move(communicator), settings, device);
  const std::shared_ptr<detail::ShardedParts> parts(engine, &engine->parts());
  return {.engine = engine, .parts = parts, .saved = parts, .inspection = engine};
}

}  // namespace accelerate
