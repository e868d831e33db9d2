// save_state() and load_state(): turns what an Accelerator has prepared into parts of a checkpoint.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/codecs.h"
#include "accelerate/checkpoint/state_file.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/parallel/sharded/fully_sharded_data_parallel.h"
#include "accelerate/tensor/seed.h"

namespace accelerate {
namespace {

// "model", "model_1", "model_2", …, as upstream names them.
std::string numbered(const std::string& kind, std::size_t index) {
  return index == 0 ? kind : kind + "_" + std::to_string(index);
}

std::string of_rank(const char* kind, int rank) {
  return std::string(kind) + "_" + std::to_string(rank);
}

std::vector<int> ranks_with_gradients(const Manifest& manifest) {
  constexpr std::string_view kPrefix = "gradients_", kSuffix = ".json";
  std::vector<int> ranks;
  for (const auto& [name, size_bytes, checksum] : manifest.files) {
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const auto digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    if (const auto rank = parse_int(digits); rank && *rank >= 0 && *rank < manifest.num_processes)
      ranks.push_back(static_cast<int>(*rank));
  }
  return ranks;
}

// Returns the names of all models' parameters. Names of a second model get the prefix "model_1:".
ParameterNames parameter_names(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  ParameterNames names;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto prefix = i == 0 ? std::string() : numbered("model", i) + ":";
    for (const auto& [name, parameter] : models[i]->view().parameters) {
      names.emplace(parameter.unsafeGetTensorImpl(), prefix + name);
      const auto& engine = models[i]->shards();
      const at::Tensor part = engine ? engine->local_parameter(parameter) : at::Tensor();
      if (part.defined()) names.emplace(part.unsafeGetTensorImpl(), prefix + name);
    }
  }
  return names;
}

// Returns this rank's parts of all models' parameters, under the names that optimizers use.
std::vector<NamedShard> shards_by_parameter_name(const TrainingState& training) {
  std::vector<NamedShard> shards;
  for (const auto& model : training.models) {
    const auto prefix = &model == &training.models.front() ? std::string() : model.stem + ":";
    for (NamedShard shard : model.shards) {
      shard.name = prefix + shard.name;
      shards.push_back(std::move(shard));
    }
  }
  return shards;
}

// A rank that is not in the checkpoint gets a separate seed. It draws other numbers than the saved
// ranks, but the same in each resumed run.
CheckedState seed_of_new_rank(const StateDict& state_of_first, int rank) {
  const auto bytes = state_of_first.at("cpu").to<at::Tensor>().contiguous();
  const auto sum = checksum(std::string_view(static_cast<const char*>(bytes.const_data_ptr()),
                                             static_cast<std::size_t>(bytes.nbytes())));
  return {[seed = sum + static_cast<std::uint64_t>(rank)] { set_seed(seed); }};
}

StatePart rng_part(const Manifest& manifest, int rank) {
  if (manifest.has_rank(rank))
    return {.stem = of_rank("random_states", rank),
            .every_rank = true,
            .state_dict = rng_state,
            .check = check_rng_state};
  return {.stem = of_rank("random_states", manifest.ranks.empty() ? 0 : manifest.ranks.front()),
          .every_rank = false,
          .state_dict = rng_state,
          .check = [rank](const StateDict& state) { return seed_of_new_rank(state, rank); }};
}

StateDict gradients_of(const ParameterNames& names,
                       const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  StateDict::Dict gradients;
  for (const auto& model : models) {
    for (const auto& parameter : model->parameters()) {
      if (parameter.grad().defined())
        gradients[names.at(parameter.unsafeGetTensorImpl())] = parameter.grad();
    }
  }
  return gradients;
}

// A saved gradient and the parameter that gets it.
struct SavedGradient {
  at::Tensor parameter, gradient;
};

std::vector<SavedGradient> saved_gradients(
    const StateDict& part, const ParameterNames& names,
    const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  const auto& saved = part.at("gradients");
  std::vector<SavedGradient> found;
  for (const auto& model : models) {
    for (const auto& parameter : model->parameters()) {
      const auto* gradient = saved.find(names.at(parameter.unsafeGetTensorImpl()));
      if (gradient == nullptr) continue;
      const auto tensor = gradient->to<at::Tensor>();
      if (tensor.sizes() != parameter.sizes() ||
          !c10::canCast(tensor.scalar_type(), parameter.scalar_type()))
        throw CheckpointError("a gradient is " + gradient->describe() + ", its parameter is " +
                              StateDict(parameter).describe());
      found.push_back({parameter, tensor});
    }
  }
  return found;
}

// Adds `share` times the gradients that one rank saved to the present gradients.
void add_gradients(const std::vector<SavedGradient>& saved, double share) {
  const at::NoGradGuard no_grad;
  for (const auto& [parameter, gradient] : saved) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter);
    parameter.mutable_grad().add_(gradient.to(parameter.device()), share);
  }
}

// Returns a saved count. The greatest integer is refused because counting goes on from it.
std::int64_t count_of(const StateDict& value, const char* key) {
  const auto number = value.to<std::int64_t>();
  if (number >= 0 && number < std::numeric_limits<std::int64_t>::max()) return number;
  throw CheckpointError("'" + std::string(key) + "' of the accelerator is " +
                        std::to_string(number) + "; allowed is 0 to 2^63 - 2");
}

// As count_of, for a value that may be absent or null.
std::optional<std::int64_t> count_if_any(const StateDict* value, const char* key) {
  if (value == nullptr || value->is_null()) return std::nullopt;
  return count_of(*value, key);
}

// Otherwise slices of different steps would be saved as one state.
void require_equal_updates(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  for (const auto& model : models) {
    if (model->shards()) model->shards()->require_equal_updates();
  }
}

[[noreturn]] void refuse_window_of_shards() {
  throw UsageError(
      "save_state() inside an accumulation window of a sharded model: its gradients so far lie "
      "where "
      "no checkpoint can take them up. Save when sync_gradients() is true, after optimizer.step()");
}

// Checks what one rank saved inside a window.
CheckedState check_window(detail::ItemCount& items, const StateDict& part,
                          std::vector<SavedGradient> gradients, double share) {
  const auto counted = count_if_any(&part.at("num_items"), "num_items");
  return {[&items, counted, gradients = std::move(gradients), share] {
    if (counted) items.add(*counted);
    add_gradients(gradients, counted ? 1.0 : share);
  }};
}

}  // namespace

StatePart Accelerator::Impl::progress_part() {
  return {.stem = "accelerator",
          .every_rank = false,
          .state_dict = [this]() -> StateDict {
            return {{"step", gradient_state->step()},
                    {"iteration", checkpointing.next_iteration()}};
          },
          .check = [this](const StateDict& saved) -> CheckedState {
            const auto step = count_of(saved.at("step"), "step");
            const auto next = count_if_any(saved.find("iteration"), "iteration");
            return {[this, step, next] { load_progress(step, next); }};
          }};
}

void Accelerator::Impl::load_progress(std::int64_t step, std::optional<std::int64_t> iteration) {
  for (const auto& model : live_models()) {
    for (auto parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
    if (const auto& engine = model->shards()) engine->zero_grad(engine->local_parameters());
  }
  gradient_state->resume(step);
  items.reset();
  items.enter(gradient_state->window());
  if (iteration) checkpointing.set_iteration(*iteration);
}

// Inside an accumulation window each rank has gradients that exist nowhere else. The ranks that
// load divide the saved gradients among themselves. The weights keep their mean as it was, or, if
// items are counted, their sum.
void Accelerator::Impl::add_window(const Manifest& manifest, TrainingState& training) {
  const auto live = live_models();
  const auto names = parameter_names(live);
  const int rank = state.process_index(), ranks = state.num_processes();
  const bool loading = !manifest.files.empty();
  const bool sharded =
      std::ranges::any_of(live, [](const auto& model) { return model->shards() != nullptr; });
  if (!loading) {
    if (gradient_state->sync_gradients) return;
    if (sharded) refuse_window_of_shards();
    training.parts.push_back({.stem = of_rank("gradients", rank),
                              .every_rank = true,
                              .state_dict = [this, live, names]() -> StateDict {
                                const auto counted = items.counted();
                                return {{"gradients", gradients_of(names, live)},
                                        {"num_items", counted ? StateDict(*counted) : StateDict()}};
                              },
                              .check = nullptr});
    return;
  }
  const auto with_gradients = ranks_with_gradients(manifest);
  if (!manifest.ranks.empty() && !with_gradients.empty() &&
      (ranks != manifest.num_processes || !manifest.has_rank(rank)))
    throw CheckpointError(
        "the checkpoint lies on the disks of several machines and was saved inside an accumulation "
        "window, whose gradients only the ranks that saved them can reach: load it by as many "
        "processes on the same machines, or save between windows");
  if (sharded && !with_gradients.empty()) {
    throw CheckpointError(
        "the checkpoint was saved inside an accumulation window, and a model that is sharded "
        "cannot "
        "take up its gradients: load it without sharding, or save between windows");
  }
  const double share = static_cast<double>(ranks) / manifest.num_processes;
  for (const int saved : with_gradients) {
    if (saved % ranks != rank) continue;
    training.parts.push_back({.stem = of_rank("gradients", saved),
                              .every_rank = true,
                              .state_dict = nullptr,
                              .check = [this, live, names, share](const StateDict& part) {
                                return check_window(items, part, saved_gradients(part, names, live),
                                                    share);
                              }});
  }
}

TrainingState Accelerator::Impl::training_state(const Manifest& manifest) {
  TrainingState training;
  const auto live = live_models();
  if (const bool saving = manifest.files.empty(); saving) require_equal_updates(live);
  for (std::size_t i = 0; i < live.size(); ++i)
    training.models.push_back(detail::model_part(*live[i], numbered("model", i)));
  training.whole = fsdp && fsdp->state_dict_type == StateDictType::FULL_STATE_DICT;
  const auto shards = shards_by_parameter_name(training);
  const auto add = [&](std::string stem, std::function<StateDict()> save,
                       std::function<CheckedState(const StateDict&)> check) {
    training.parts.push_back(
        {.stem = std::move(stem), .state_dict = std::move(save), .check = std::move(check)});
  };
  std::size_t i = 0;
  for (auto& optimizer : live_optimizers()) {
    const auto names = parameter_names(live);
    add(
        numbered("optimizer", i++),
        [optimizer, names] { return optimizer_state_dict(optimizer.optimizer(), names); },
        [optimizer, names](const StateDict& saved) {
          return check_optimizer_state_dict(optimizer.optimizer(), saved, names);
        });
    training.parts.back().shards = shards;
  }
  i = 0;
  for (auto& scheduler : live_schedulers()) {
    add(
        numbered("scheduler", i++), [scheduler] { return to_state_dict(scheduler.state_dict()); },
        [scheduler](const StateDict& saved) -> CheckedState {
          const auto state = scheduler_state_of(saved);
          scheduler.scheduler().check_state_dict(state);
          return {[scheduler, state]() mutable { scheduler.load_state_dict(state); }};
        });
  }
  i = 0;
  for (auto& loader : live_loaders()) {
    add(
        numbered("dataloader", i++), [loader] { return to_state_dict(loader.state()); },
        [loader](const StateDict& saved) -> CheckedState {
          const auto state = loader_state_of(saved);
          loader.check(state);
          return {[loader, state] { loader.load(state); }};
        });
  }
  if (scaler) {
    add(
        "scaler", [this] { return to_state_dict(scaler->state_dict()); },
        [this](const StateDict& saved) -> CheckedState {
          const auto state = grad_scaler_state_of(saved);
          GradScaler::check_state_dict(state);
          return {[this, state] { scaler->load_state_dict(state); }};
        });
  }
  i = 0;
  for (const auto& object : checkpointing.objects()) {
    add(numbered("custom_checkpoint", i++), object.state_dict,
        [load = object.load_state_dict](const StateDict& saved) -> CheckedState {
          return {[load, saved] { load(saved); }, true};
        });
  }
  training.parts.push_back(progress_part());
  training.parts.push_back(rng_part(manifest, state.process_index()));
  add_window(manifest, training);
  return training;
}

std::filesystem::path Accelerator::save_state(const std::filesystem::path& output_dir,
                                              const SaveStateOptions& options) {
  return impl_->checkpointing.save(
      output_dir, options,
      [this](const Manifest& manifest) { return impl_->training_state(manifest); }, communicator());
}

std::filesystem::path Accelerator::load_state(const std::filesystem::path& input_dir,
                                              const LoadStateOptions& options) {
  return impl_->checkpointing.load(
      input_dir, options,
      [this](const Manifest& manifest) { return impl_->training_state(manifest); }, communicator());
}

void Accelerator::wait_for_save() {
  impl_->checkpointing.wait(communicator());
}

void Accelerator::register_object(detail::CheckpointedObject object) {
  impl_->checkpointing.add(std::move(object));
}

RemovableHandle Accelerator::register_save_state_pre_hook(StateHook hook) {
  return impl_->checkpointing.add_save_hook(std::move(hook));
}

RemovableHandle Accelerator::register_load_state_pre_hook(StateHook hook) {
  return impl_->checkpointing.add_load_hook(std::move(hook));
}

std::int64_t Accelerator::save_iteration() const {
  return impl_->checkpointing.iteration();
}

void Accelerator::set_save_iteration(std::int64_t iteration) {
  impl_->checkpointing.set_iteration(iteration);
}

}  // namespace accelerate
