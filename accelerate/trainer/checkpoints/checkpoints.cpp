#include "accelerate/trainer/checkpoints/checkpoints.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/python_state.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/models/pre_trained_model.h"
#include "accelerate/trainer/arguments/parse_args.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kStateFile = "trainer_state.json";

const Logger& checkpoints_logger() {
  static const Logger instance = get_logger("accelerate.trainer");
  return instance;
}

bool is_same(const Path& a, const Path& b) {
  std::error_code error;
  return !a.empty() && !b.empty() && std::filesystem::equivalent(a, b, error);
}

// Warns of settings that have changed since the checkpoint was saved.
void warn_of_changes(const TrainerState& saved, const TrainerState& now) {
  std::vector<std::string> changes;
  const auto compare = [&](const char* name, std::int64_t before, std::int64_t after) {
    if (before != after)
      changes.push_back(std::string(name) + ": " + std::to_string(before) + " then, " +
                        std::to_string(after) + " now");
  };
  compare("logging_steps", saved.logging_steps, now.logging_steps);
  compare("eval_steps", saved.eval_steps, now.eval_steps);
  compare("save_steps", saved.save_steps, now.save_steps);
  compare("train_batch_size", saved.train_batch_size.value_or(0), now.train_batch_size.value_or(0));
  if (!changes.empty())
    checkpoints_logger().warning("arguments differ from those of the checkpoint: " +
                                 join(changes, "; "));
}

bool is_replaceable(const Path& folder) {
  try {
    check_replaceable(real_file_system(), folder);
    return true;
  } catch (const CheckpointError&) {
    return false;
  }
}

// Folders of Python's Trainer, and folders that hold more than a checkpoint, are not replaced.
// Throws now if the training would come to such a folder, because it would end there.
void refuse_to_meet(const std::vector<StepCheckpoint>& all, std::int64_t step) {
  for (const auto& one : all) {
    if (one.step <= step || is_replaceable(std::filesystem::absolute(one.folder))) continue;
    throw CheckpointError(one.folder.string() +
                          " was not saved by this library, or holds other files, so it is not "
                          "replaced, and the training goes on from step " +
                          std::to_string(step) +
                          ", before it: go on from the newest checkpoint, remove later ones, or " +
                          "name another output_dir");
  }
}

// A pass over a stream may be shorter than the plan, so `epoch` says which pass it was. Its
// fraction counts micro-batches, as in the loop.
Resumed place_of(const TrainerState& saved, const TrainingPlan& plan) {
  const bool is_stream = plan.num_train_epochs == std::numeric_limits<std::int64_t>::max();
  if (!is_stream)
    return {.epoch = saved.global_step / plan.updates_per_epoch,
            .updates = saved.global_step % plan.updates_per_epoch};
  const double pass = std::floor(saved.epoch);
  const auto batches =
      std::llround((saved.epoch - pass) * static_cast<double>(saved.max_steps * plan.accumulation));
  return {.epoch = static_cast<std::int64_t>(pass),
          .updates = (batches + plan.accumulation - 1) / plan.accumulation};
}

// For a folder of Python's Trainer, which does not say where its loaders were.
void skip_batches(PreparedLoader<Inputs>& loader, const Resumed& resumed,
                  const TrainingPlan& plan) {
  auto place = loader.state_dict();
  place.epoch = resumed.epoch;
  place.batches = resumed.updates * plan.accumulation;
  place.samples = place.batches * place.total_batch_size;
  loader.load_state_dict(place);
}

}  // namespace

std::vector<StepCheckpoint> step_checkpoints(const Path& output_dir) {
  std::vector<StepCheckpoint> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(output_dir, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix)) continue;
    const std::string digits = name.substr(std::string(kPrefix).size());
    const bool is_number = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
    const auto step = is_number ? parse_int(digits) : std::nullopt;
    if (step && std::filesystem::is_directory(entry.path(), error))
      found.push_back({*step, entry.path()});
  }
  std::ranges::sort(found, {}, &StepCheckpoint::step);
  return found;
}

std::vector<StepCheckpoint> beyond_limit(std::vector<StepCheckpoint> all, std::int64_t limit,
                                         const Path& best) {
  const auto place =
      std::ranges::find_if(all, [&](const auto& one) { return is_same(one.folder, best); });
  if (place != all.end()) {
    // The best one counts as the second newest, because the newest is needed to go on.
    const bool is_newest = place + 1 == all.end();
    if (limit == 1 && !is_newest) limit = 2;
    std::rotate(place, place + 1, all.end() - (is_newest ? 0 : 1));
  }
  const auto count = static_cast<std::int64_t>(all.size());
  all.resize(static_cast<std::size_t>(std::max<std::int64_t>(count - limit, 0)));
  return all;
}

Path Checkpoints::folder_of(std::int64_t step) const {
  return Path(core_.args.output_dir) / (kPrefix + std::to_string(step));
}

bool Checkpoints::writes_here() const {
  return core_.args.save_on_each_node ? core_.accelerator.is_local_main_process()
                                      : core_.accelerator.is_main_process();
}

Path Checkpoints::save() {
  const Path folder = folder_of(core_.state.global_step);
  note_best();
  auto hook = core_.accelerator.register_save_state_pre_hook([this](const Path& temporary) {
    if (writes_here()) write_files(temporary);
  });
  try {
    core_.accelerator.save_state(
        folder, {.whole_models = true,
                 .only_models = core_.args.save_only_model && !core_.control.was_interrupted});
  } catch (...) {
    hook.remove();
    throw;
  }
  hook.remove();
  rotate();
  core_.call(&TrainerCallback::on_save, folder);
  return folder;
}

void Checkpoints::note_best() {
  auto& state = core_.state;
  if (!state.best_global_step) return;
  const Path best = folder_of(*state.best_global_step);
  if (*state.best_global_step == state.global_step || std::filesystem::is_directory(best))
    state.best_model_checkpoint = best.string();
}

void Checkpoints::write_files(const Path& folder) const {
  write_model_files(folder);
  write_file_atomically(real_file_system(), folder / kStateFile, saved_state().to_json());
}

TrainerState Checkpoints::saved_state() const {
  TrainerState saved = core_.state;
  saved.control = core_.control;
  core_.callbacks.save_into(saved);
  return saved;
}

void Checkpoints::write_model_files(const Path& folder) const {
  if (const auto* model = core_.model.pretrained()) model->save_config(folder);
  if (core_.options.processing_class) core_.options.processing_class->save_pretrained(folder);
  write_file_atomically(real_file_system(), folder / "training_args.json",
                        write_json(to_node(core_.args)));
}

void Checkpoints::rotate() {
  const auto& limit = core_.args.save_total_limit;
  if (!limit || *limit <= 0 || !writes_here()) return;
  // Later steps belong to a run that was resumed from an earlier step: they are older than what was
  // just saved.
  auto all = step_checkpoints(core_.args.output_dir);
  const auto newest = std::ranges::find_if(
      all, [&](const auto& one) { return one.step > core_.state.global_step; });
  std::rotate(all.begin(), newest, all.end());
  for (const auto& one : beyond_limit(std::move(all), *limit, core_.state.best_model_checkpoint))
    remove(one);
}

// Removes only a whole checkpoint that holds nothing else; a file of the user's in it keeps it.
void Checkpoints::remove(const StepCheckpoint& checkpoint) {
  if (kept_.contains(checkpoint.step)) return;
  try {
    checkpoints_logger().info("removing " + checkpoint.folder.string() +
                              ", which is beyond save_total_limit");
    remove_checkpoint(real_file_system(), std::filesystem::absolute(checkpoint.folder));
  } catch (const Error& error) {
    checkpoints_logger().warning("an old checkpoint stays: " + describe(error));
    kept_.insert(checkpoint.step);
  }
}

void Checkpoints::keep_best_alone() {
  const Path best = core_.state.best_model_checkpoint;
  if (core_.args.save_total_limit != 1 || best.empty() || !writes_here()) return;
  for (const auto& one : step_checkpoints(core_.args.output_dir))
    if (!is_same(one.folder, best)) remove(one);
}

std::optional<Path> Checkpoints::find(const ResumeOption& asked) const {
  if (asked.empty()) return std::nullopt;
  const auto all = step_checkpoints(core_.args.output_dir);
  if (!asked.newest()) {
    if (std::filesystem::is_directory(asked.folder())) return asked.folder();
    throw ConfigError(
        "resume_from_checkpoint names " + asked.folder().string() + ", which is not there" +
        (all.empty() ? "" : "; the newest of output_dir is " + all.back().folder.string()));
  }
  if (all.empty())
    throw ConfigError("resume_from_checkpoint asks for the newest checkpoint, and " +
                      core_.args.output_dir + " has none: leave it out to begin anew");
  return all.back().folder;
}

Resumed Checkpoints::resume(const Path& folder, const TrainingPlan& plan,
                            PreparedLoader<Inputs>& loader) {
  TrainerState saved;
  on_all_ranks(core_.accelerator.communicator(), [&] {
    if (!std::filesystem::exists(folder / kStateFile))
      throw CheckpointError(folder.string() + " has no " + kStateFile +
                            ", so no Trainer saved it: give a folder checkpoint-<step>");
    saved = TrainerState::load(folder / kStateFile);
  });
  if (std::filesystem::exists(folder / "manifest.json") &&
      !std::filesystem::exists(folder / "accelerator.json"))
    throw CheckpointError(folder.string() +
                          " was saved with save_only_model and holds the weights alone: make the "
                          "model of it by from_pretrained(), and begin anew");
  const bool of_python = is_python_state(real_file_system(), folder);
  if (of_python)
    checkpoints_logger().warning(
        folder.string() +
        " is of Python's Trainer: weights, optimizer, schedule and state go on; its random states "
        "are pickled objects and are not read, so dropout draws other numbers");
  if (core_.args.save_strategy != SaveStrategy::no)
    refuse_to_meet(step_checkpoints(core_.args.output_dir), saved.global_step);
  core_.accelerator.load_state(folder);
  warn_of_changes(saved, core_.state);
  if (core_.args.restore_callback_states_from_checkpoint) core_.callbacks.load_from(saved);
  saved.logging_steps = core_.state.logging_steps;
  saved.eval_steps = core_.state.eval_steps;
  saved.save_steps = core_.state.save_steps;
  if (!saved.best_model_checkpoint.empty() &&
      !std::filesystem::is_directory(saved.best_model_checkpoint)) {
    checkpoints_logger().warning("the best checkpoint, " + saved.best_model_checkpoint +
                                 ", is not there any more");
    saved.best_model_checkpoint.clear();
  }
  core_.state = std::move(saved);
  Resumed resumed = place_of(core_.state, plan);
  if (core_.args.ignore_data_skip) resumed.updates = 0;
  if (of_python && resumed.updates > 0) skip_batches(loader, resumed, plan);
  return resumed;
}

void Checkpoints::load_best() {
  const std::string& best = core_.state.best_model_checkpoint;
  if (best.empty()) return;
  if (!std::filesystem::is_directory(best)) {
    checkpoints_logger().warning("the best checkpoint, " + best +
                                 ", is not there any more: the last weights stay");
    return;
  }
  checkpoints_logger().info("loading the best model from " + best + " (" +
                            core_.args.metric_for_best_model + ": " +
                            std::to_string(core_.state.best_metric.value_or(0)) + ")");
  core_.accelerator.load_state(best, {.only_models = true});
}

}  // namespace accelerate::detail
