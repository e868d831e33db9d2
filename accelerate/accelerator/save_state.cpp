// save_state() and load_state(): turns what an Accelerator has prepared into parts of a checkpoint.
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "accelerate/accelerator/accelerator_impl.h"
#include "accelerate/accelerator/prepared_elsewhere.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/checkpoint/accumulation_window.h"
#include "accelerate/checkpoint/codecs.h"
#include "accelerate/checkpoint/object_parts.h"
#include "accelerate/tensor/compat/matrix_products.h"

namespace accelerate {
namespace {

// "model", "model_1", "model_2", …, as upstream names them.
std::string stem_of(const std::string& kind, std::size_t index) {
  return index == 0 ? kind : kind + "_" + std::to_string(index);
}

// Returns the names of all models' parameters. Names of a second model get the prefix "model_1:".
ParameterNames parameter_names(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  ParameterNames names;
  for (std::size_t i = 0; i < models.size(); ++i) {
    const auto prefix = i == 0 ? std::string() : stem_of("model", i) + ":";
    for (const auto& [name, parameter] : models[i]->view().parameters) {
      names.emplace(parameter.unsafeGetTensorImpl(), prefix + name);
      const at::Tensor& part = models[i]->parallel().parts->local_parameter(parameter);
      names.emplace(part.unsafeGetTensorImpl(), prefix + name);
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

// A training that continues where another library multiplies fp32 matrices gives other bits. `saved`:
// the library of the checkpoint; null in older checkpoints.
void warn_of_another_library(const StateDict* saved) {
  const std::string here = compat::to_string(compat::matrix_library());
  if (saved == nullptr || !saved->holds<std::string>() || saved->to<std::string>() == here) return;
  const std::string there = detail::untrusted_line(saved->to<std::string>());
  get_logger("accelerate.accelerator")
      .warning("the checkpoint was saved where " + there + " multiplies fp32 matrices; here " +
               here +
               " does. Last digits will differ from a training that was not interrupted. To avoid "
               "that, set ACCELERATE_CPU_MATMUL=" +
               there);
}

// Otherwise slices of different steps would be saved as one state.
void require_equal_updates(const std::vector<std::shared_ptr<detail::ModelCore>>& models) {
  for (const auto& model : models) model->parallel().saved->require_equal_updates();
}

// Reads the states of loaders, and does nothing with them.
void leave_loaders(TrainingState& training) {
  for (StatePart& part : training.parts)
    if (part.stem.starts_with("dataloader"))
      part.check = [](const StateDict&) -> CheckedState { return {[] {}}; };
}

}  // namespace

StatePart Accelerator::Impl::progress_part() {
  return {.stem = "accelerator",
          .every_rank = false,
          .state_dict = [this]() -> StateDict {
            return {{"step", gradient_state->step()},
                    {"iteration", checkpointing.next_iteration()},
                    {"matrix_library", compat::to_string(compat::matrix_library())}};
          },
          .check = [this](const StateDict& saved) -> CheckedState {
            const auto step = count_of(saved.at("step"), "step");
            const auto next = count_if_any(saved.find("iteration"), "iteration");
            if (state.device().is_cpu() && state.is_main_process())
              warn_of_another_library(saved.find("matrix_library"));
            return {[this, step, next] { load_progress(step, next); }};
          }};
}

void Accelerator::Impl::require_prepared_something(const char* call) {
  const bool has_objects = !live_models().empty() || !live_optimizers().empty() ||
                           !live_schedulers().empty() || !live_loaders().empty() ||
                           !checkpointing.objects().empty() || checkpointing.has_hooks();
  const std::string model = has_objects ? "" : detail::class_prepared_elsewhere(*gradient_state);
  if (model.empty()) return;
  throw UsageError(std::string(call) + " of an Accelerator that has prepared nothing, while " +
                       "another one has prepared " + model +
                       ": call it on the Accelerator that prepared the model",
                   error_name::kNotPrepared);
}

void Accelerator::Impl::load_progress(std::int64_t step, std::optional<std::int64_t> iteration) {
  for (const auto& model : live_models()) {
    for (auto parameter : model->parameters()) parameter.mutable_grad() = at::Tensor();
    model->parallel().parts->zero_grad(model->gradient_holders());
  }
  gradient_state->resume(step);
  items.reset();
  items.enter(gradient_state->window());
  if (iteration) checkpointing.set_iteration(*iteration);
}

OpenWindow Accelerator::Impl::open_window() {
  const auto live = live_models();
  OpenWindow window{.parameters = {},
                    .names = parameter_names(live),
                    .items = items,
                    .rank = state.process_index(),
                    .num_ranks = state.num_processes()};
  for (const auto& model : live) {
    std::ranges::move(model->parameters(), std::back_inserter(window.parameters));
    window.is_sharded = window.is_sharded || model->parallel().parts->is_sharded();
  }
  return window;
}

TrainingState Accelerator::Impl::training_to_save() {
  require_equal_updates(live_models());
  TrainingState training = prepared_training();
  training.saves = fsdp && fsdp->state_dict_type == StateDictType::FULL_STATE_DICT
                       ? SpreadTensors::whole
                       : SpreadTensors::in_shards;
  training.parts.push_back(random_states_part(state.process_index()));
  if (!gradient_state->sync_gradients) training.parts.push_back(part_to_save(open_window()));
  return training;
}

TrainingState Accelerator::Impl::training_to_load(const Manifest& manifest) {
  TrainingState training = prepared_training();
  training.parts.push_back(random_states_part(state.process_index(), manifest));
  std::ranges::move(parts_to_load(open_window(), manifest), std::back_inserter(training.parts));
  return training;
}

TrainingState Accelerator::Impl::prepared_training() {
  TrainingState training;
  const auto live = live_models();
  for (std::size_t i = 0; i < live.size(); ++i)
    training.models.push_back(detail::model_part(*live[i], stem_of("model", i)));

  const auto add = [&training](const char* kind, const auto& objects) {
    std::size_t i = 0;
    for (const auto& object : objects)
      training.parts.push_back(part_of(stem_of(kind, i++), object));
  };
  const auto names = parameter_names(live);
  const auto shards = shards_by_parameter_name(training);
  std::vector<OptimizerPart> optimizer_parts;
  for (const auto& optimizer : live_optimizers())
    optimizer_parts.push_back({optimizer, names, shards});
  add("optimizer", optimizer_parts);
  add("scheduler", live_schedulers());
  add("dataloader", live_loaders());
  if (scaler) training.parts.push_back(part_of("scaler", scaler));
  add("custom_checkpoint", checkpointing.objects());
  training.parts.push_back(progress_part());
  return training;
}

std::filesystem::path Accelerator::save_state(const std::filesystem::path& output_dir,
                                              const SaveStateOptions& options) {
  impl_->require_prepared_something("save_state()");
  return impl_->checkpointing.save(
      output_dir, options, [this] { return impl_->training_to_save(); }, communicator());
}

std::filesystem::path Accelerator::load_state(const std::filesystem::path& input_dir,
                                              const LoadStateOptions& options) {
  impl_->require_prepared_something("load_state()");
  return impl_->checkpointing.load(
      input_dir, options,
      [&, this](const Manifest& manifest) {
        TrainingState training = impl_->training_to_load(manifest);
        if (!options.loaders) leave_loaders(training);
        return training;
      },
      communicator());
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
