#include "accelerate/checkpoint/object_parts.h"

#include <cstdint>
#include <string_view>
#include <utility>

#include "accelerate/base/checksum.h"
#include "accelerate/checkpoint/codecs.h"
#include "accelerate/tensor/seed.h"

namespace accelerate {
namespace {

// Gives a rank that is not in the checkpoint a seed of its own. It draws other numbers than the
// saved ranks, but the same in each resumed run.
CheckedState seed_of_new_rank(const StateDict& state_of_first, int rank) {
  const auto bytes = state_of_first.at("cpu").to<at::Tensor>().contiguous();
  const auto sum = checksum(std::string_view(static_cast<const char*>(bytes.const_data_ptr()),
                                             static_cast<std::size_t>(bytes.nbytes())));
  return {[seed = sum + static_cast<std::uint64_t>(rank)] { set_seed(seed); }};
}

// Says too what only DeepSpeed's scaler has: there it comes from the checkpoint, not from the
// program. Loading here ignores it.
StateDict saved_scaler(const GradScaler& scaler) {
  StateDict state = to_state_dict(scaler.state_dict());
  const GradScalerKwargs& options = scaler.options();
  if (!options.dynamic) state["_dynamic"] = false;
  if (options.min_scale > 0) state["_min_scale"] = options.min_scale;
  if (options.hysteresis > 1) state["_hysteresis"] = options.hysteresis;
  if (options.consecutive_hysteresis) state["_consecutive_hysteresis"] = true;
  return state;
}

}  // namespace

StatePart part_of(std::string stem, const OptimizerPart& part) {
  return {.stem = std::move(stem),
          .state_dict =
              [optimizer = part.optimizer, names = part.names] {
                return optimizer_state_dict(optimizer.optimizer(), names);
              },
          .check =
              [optimizer = part.optimizer, names = part.names](const StateDict& saved) {
                return check_optimizer_state_dict(optimizer.optimizer(), saved, names);
              },
          .shards = part.shards};
}

StatePart part_of(std::string stem, AcceleratedScheduler scheduler) {
  return {.stem = std::move(stem),
          .state_dict = [scheduler] { return to_state_dict(scheduler.state_dict()); },
          .check = [scheduler](const StateDict& saved) -> CheckedState {
            const auto state = scheduler_state_of(saved);
            scheduler.scheduler().check_state_dict(state);
            return {[scheduler, state]() mutable { scheduler.load_state_dict(state); }};
          }};
}

StatePart part_of(std::string stem, const detail::LoaderPlan& loader) {
  return {.stem = std::move(stem),
          .state_dict = [loader] { return to_state_dict(loader.state()); },
          .check = [loader](const StateDict& saved) -> CheckedState {
            const auto state = loader_state_of(saved);
            loader.check(state);
            return {[loader, state]() mutable { loader.load(state); }};
          }};
}

StatePart part_of(std::string stem, const std::shared_ptr<GradScaler>& scaler) {
  return {.stem = std::move(stem),
          .state_dict = [scaler] { return saved_scaler(*scaler); },
          .check = [scaler](const StateDict& saved) -> CheckedState {
            const auto state = grad_scaler_state_of(saved);
            GradScaler::check_state_dict(state);
            return {[scaler, state] { scaler->load_state_dict(state); }};
          }};
}

StatePart part_of(std::string stem, const detail::CheckpointedObject& object) {
  return {.stem = std::move(stem),
          .state_dict = object.state_dict,
          .check = [load = object.load_state_dict](const StateDict& saved) -> CheckedState {
            return {[load, saved] { load(saved); }, true};
          }};
}

StatePart random_states_part(int rank) {
  return {.stem = "random_states_" + std::to_string(rank),
          .every_rank = true,
          .state_dict = rng_state,
          .check = check_rng_state};
}

StatePart random_states_part(int rank, const Manifest& manifest) {
  if (manifest.has_rank(rank)) return random_states_part(rank);
  return {.stem = "random_states_" +
                  std::to_string(manifest.ranks.empty() ? 0 : manifest.ranks.front()),
          .every_rank = false,
          .state_dict = rng_state,
          .check = [rank](const StateDict& state) { return seed_of_new_rank(state, rank); }};
}

}  // namespace accelerate
