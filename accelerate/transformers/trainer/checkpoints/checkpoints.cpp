#include "accelerate/transformers/trainer/checkpoints/checkpoints.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/transformers/trainer/checkpoints/loop_record.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

constexpr const char* kStateFile = "trainer_state.json";
// Written by Python's Trainer when it begins a save on a signal, and removed at the end.
constexpr const char* kIncompleteFile = "checkpoint-is-incomplete.txt";

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
    trainer_logger().warning("arguments differ from those of the checkpoint: " +
                             join(changes, "; "));
}

// Leaves out the arguments of callbacks: those of this program count.
TrainerState without_arguments(TrainerState saved) {
  for (auto& [name, state] : saved.stateful_callbacks) {
    std::vector<Node*> nodes{&state};
    for (Node& item : state.items) nodes.push_back(&item);
    for (Node* node : nodes)
      for (auto& [key, line, value] : node->entries)
        if (key == "args") value = Node::map();
  }
  return saved;
}

// Returns why a checkpoint may not be replaced; "" if it may.
std::string obstacle_to_replace(const Path& folder, Replaces replaces) {
  try {
    check_replaceable(real_file_system(), std::filesystem::absolute(folder), replaces);
    return "";
  } catch (const CheckpointError& error) {
    return describe(error);
  }
}

constexpr const char* kOverwrite =
    "drop the old checkpoints by overwrite_output_dir = true (--overwrite_output_dir)";

// A checkpoint of Python's Trainer behind the one to go on from would end the training when it comes
// to that step.
void refuse_to_meet(const std::vector<NumberedCheckpoint>& later, std::int64_t step) {
  for (const auto& one : later) {
    const std::string obstacle = obstacle_to_replace(one.folder, Replaces::own);
    if (obstacle.empty()) continue;
    throw ConfigError("training would resume from step " + std::to_string(step) +
                      " and later reach " + one.folder.filename().string() +
                      ", which it cannot replace: " + obstacle +
                      " Resume from the newest checkpoint (resume_from_checkpoint = true), " +
                      kOverwrite + ", or name another output_dir");
  }
}

[[noreturn]] void refuse_older_run(const std::string& output_dir,
                                   const std::vector<NumberedCheckpoint>& older) {
  throw ConfigError("output_dir " + output_dir + " holds " +
                        older.back().folder.filename().string() +
                        " of another run: continue it by resume_from_checkpoint = true "
                        "(--resume_from_checkpoint true), or " +
                        kOverwrite + " and start again, or name another folder",
                    error_name::kEarlierRun);
}

// Their removal comes later, and must succeed then.
void check_removable(const std::vector<NumberedCheckpoint>& older) {
  for (const auto& one : older) {
    const std::string obstacle = obstacle_to_replace(one.folder, Replaces::of_python_too);
    if (!obstacle.empty())
      throw ConfigError("overwrite_output_dir is set, and " + one.folder.string() +
                        " cannot be dropped: " + obstacle);
  }
}

// Whether Python's Trainer was ended while it saved the folder on a signal.
bool is_incomplete(const Path& folder) {
  return std::filesystem::exists(folder / kIncompleteFile);
}

std::vector<NumberedCheckpoint> complete_checkpoints(const Path& output_dir) {
  auto all = step_checkpoints(output_dir);
  std::erase_if(all, [](const NumberedCheckpoint& one) {
    const bool is_left_out = is_incomplete(one.folder);
    if (is_left_out)
      trainer_logger().warning(one.folder.string() + " holds " + kIncompleteFile +
                               ": its save was cut short, so it is passed over");
    return is_left_out;
  });
  return all;
}

std::string random_run_name() {
  std::random_device random;
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%08x%08x", random(), random());
  return digits.data();
}

// Names this call of train(): what the launcher calls itself, if it may start the ranks again, and a
// number that no other call has.
std::string name_of_run() {
  return env("ACCELERATE_LAUNCH_ID").value_or("") + random_run_name();
}

// Whether the folder is a checkpoint that was due, not one that only a signal asked for.
bool is_candidate(const Path& folder) {
  if (!std::filesystem::is_directory(folder)) return false;
  const auto record = LoopRecord::read(folder);
  return !record || !record->is_extra;
}

}  // namespace

Path Checkpoints::folder_of(std::int64_t step) const {
  return Path(core_.args.output_dir) / (kStepPrefix + std::to_string(step));
}

bool Checkpoints::writes_here() const {
  return core_.args.save_on_each_node ? core_.accelerator.is_local_main_process()
                                      : core_.accelerator.is_main_process();
}

void Checkpoints::settle() const {
  on_all_ranks(core_.accelerator.communicator(), [&] {
    if (writes_here()) OlderRun::settle(core_.args.output_dir);
  });
}

void Checkpoints::begin_run(const std::optional<Path>& from) {
  const auto& args = core_.args;
  auto older = step_checkpoints(args.output_dir);
  const auto here = std::ranges::find_if(
      older, [&](const auto& one) { return from && is_same_folder(one.folder, *from); });
  if (here != older.end()) {  // Earlier ones are of the same run.
    const std::int64_t step = here->number;
    older.erase(older.begin(), here + 1);
    if (!args.overwrite_output_dir && args.save_strategy != SaveStrategy::no)
      refuse_to_meet(older, step);
  } else if (!older.empty() && !args.overwrite_output_dir) {
    refuse_older_run(args.output_dir, older);
  }
  if (args.overwrite_output_dir) check_removable(older);
  run_ = name_of_run();
  on_all_ranks(core_.accelerator.communicator(), [&] {
    if (writes_here() && args.overwrite_output_dir)
      older_.note(args.output_dir, std::move(older), run_);
  });
}

void Checkpoints::save(LoopRecord record) {
  const Path folder = folder_of(core_.record.state.global_step);
  record.run = run_;
  note_best(record);
  auto hook = core_.accelerator.register_save_state_pre_hook([&, this](const Path& temporary) {
    if (writes_here()) write_files(temporary, record);
  });
  try {
    core_.accelerator.save_state(
        folder, {.whole_models = true,
                 .only_models = core_.args.save_only_model && !core_.record.control.was_interrupted,
                 .over_python = core_.args.overwrite_output_dir});
  } catch (...) {
    hook.remove();
    throw;
  }
  hook.remove();
  older_.drop(core_.record.state.global_step);
  rotate();
  core_.record.call(&TrainerCallback::on_save, folder);
  hub_.push_checkpoint(folder);
}

// A checkpoint that only a signal asked for is no candidate: a run that did not stop would not have
// it.
void Checkpoints::note_best(const LoopRecord& record) {
  auto& state = core_.record.state;
  if (!state.best_global_step) return;
  const Path best = folder_of(*state.best_global_step);
  const bool is_now = *state.best_global_step == state.global_step;
  if (is_now ? !record.is_extra : is_candidate(best)) state.best_model_checkpoint = best.string();
}

void Checkpoints::write_files(const Path& folder, const LoopRecord& record) const {
  write_model_files(core_, folder);
  write_file_atomically(real_file_system(), folder / kStateFile,
                        core_.record.saved_state().to_json());
  record.write(folder);
}

void Checkpoints::rotate() {
  const auto& limit = core_.args.save_total_limit;
  if (!limit || *limit <= 0 || !writes_here()) return;
  // Later steps belong to a run that was resumed from an earlier step: they are older than what was
  // just saved.
  auto all = step_checkpoints(core_.args.output_dir);
  const auto newest = std::ranges::find_if(
      all, [&](const auto& one) { return one.number > core_.record.state.global_step; });
  std::rotate(all.begin(), newest, all.end());
  for (const auto& one :
       beyond_limit(std::move(all), *limit, core_.record.state.best_model_checkpoint))
    remove(one);
}

// Removes only a whole checkpoint that holds nothing else; a file of the user's in it keeps it.
void Checkpoints::remove(const NumberedCheckpoint& checkpoint) {
  if (kept_.contains(checkpoint.number)) return;
  try {
    trainer_logger().info("removing " + checkpoint.folder.string() +
                          ", which is beyond save_total_limit");
    remove_checkpoint(real_file_system(), std::filesystem::absolute(checkpoint.folder));
  } catch (const Error& error) {
    trainer_logger().warning("an old checkpoint stays: " + describe(error));
    kept_.insert(checkpoint.number);
  }
}

void Checkpoints::end_run() {
  older_.drop(std::nullopt);
  keep_best_alone();
}

void Checkpoints::keep_best_alone() {
  const Path best = core_.record.state.best_model_checkpoint;
  if (core_.args.save_total_limit != 1 || best.empty() || !writes_here()) return;
  for (const auto& one : step_checkpoints(core_.args.output_dir))
    if (!is_same_folder(one.folder, best)) remove(one);
}

std::optional<Path> Checkpoints::of_this_launch() const {
  const auto launch = env("ACCELERATE_LAUNCH_ID");
  if (!launch || launch->empty() || env_int("TORCHELASTIC_RESTART_COUNT").value_or(0) == 0)
    return std::nullopt;
  auto all = step_checkpoints(core_.args.output_dir);
  const auto newest = std::ranges::find_if(all.rbegin(), all.rend(), [&](const auto& one) {
    const auto record = LoopRecord::read(one.folder);
    return record && record->run.starts_with(*launch);
  });
  if (newest == all.rend()) return std::nullopt;
  return newest->folder;
}

std::optional<Path> Checkpoints::find(const ResumeOption& asked) const {
  if (asked.empty()) return std::nullopt;
  const auto all = complete_checkpoints(core_.args.output_dir);
  if (!asked.newest()) {
    if (std::filesystem::is_directory(asked.folder())) return asked.folder();
    throw ConfigError(
        "resume_from_checkpoint names " + asked.folder().string() + ", which is not there" +
            (all.empty() ? "" : "; the newest of output_dir is " + all.back().folder.string()),
        error_name::kNoCheckpoint);
  }
  if (all.empty() && asked.may_begin_anew()) return std::nullopt;
  if (all.empty())
    throw ConfigError("resume_from_checkpoint asks for the newest checkpoint, and " +
                          core_.args.output_dir +
                          " has none: leave it out to start from the beginning, or set it to last",
                      error_name::kNoCheckpoint);
  return all.back().folder;
}

OpenedCheckpoint Checkpoints::open(const Path& folder) const {
  OpenedCheckpoint opened{.folder = folder};
  on_all_ranks(core_.accelerator.communicator(), [&] {
    if (is_incomplete(folder))
      throw CheckpointError(folder.string() + " holds " + kIncompleteFile +
                                ": its save was cut short. Resume from an earlier checkpoint",
                            error_name::kCheckpointUnfinished);
    if (!std::filesystem::exists(folder / kStateFile))
      throw CheckpointError(folder.string() + " has no " + kStateFile +
                            ", so no Trainer saved it: give a folder checkpoint-<step>");
    opened.state = TrainerState::load(folder / kStateFile);
    opened.record = LoopRecord::read(folder);
  });
  if (std::filesystem::exists(folder / "manifest.json") &&
      !std::filesystem::exists(folder / "accelerator.json"))
    throw CheckpointError(folder.string() +
                          " was saved with save_only_model and holds the weights alone: make the "
                          "model of it by from_pretrained(), and start a new training");
  opened.writer = writer_of(real_file_system(), folder);
  if (opened.writer == StateWriter::python_trainer)
    trainer_logger().warning(
        folder.string() +
        " was saved by Python's Trainer: weights, optimizer, schedule and state continue; its "
        "random states "
        "are pickled objects and are not read, so dropout draws other numbers");
  return opened;
}

void Checkpoints::load(const OpenedCheckpoint& opened) {
  TrainerState saved = opened.state;
  // The record says where the training's loader was.
  core_.accelerator.load_state(opened.folder, {.loaders = !opened.record});
  warn_of_changes(saved, core_.record.state);
  core_.record.callbacks.load_from(
      core_.args.restore_callback_states_from_checkpoint ? saved : without_arguments(saved));
  saved.logging_steps = core_.record.state.logging_steps;
  saved.eval_steps = core_.record.state.eval_steps;
  saved.save_steps = core_.record.state.save_steps;
  if (!saved.best_model_checkpoint.empty() &&
      !std::filesystem::is_directory(saved.best_model_checkpoint)) {
    trainer_logger().warning("the best checkpoint, " + saved.best_model_checkpoint +
                             ", is not there any more");
    saved.best_model_checkpoint.clear();
  }
  core_.record.state = std::move(saved);
}

void Checkpoints::load_best() {
  const std::string& best = core_.record.state.best_model_checkpoint;
  if (best.empty()) return;
  if (!std::filesystem::is_directory(best)) {
    trainer_logger().warning("the best checkpoint, " + best +
                             ", is not there any more: the last weights stay");
    return;
  }
  trainer_logger().info("loading the best model from " + best + " (" +
                        core_.args.metric_for_best_model + ": " +
                        std::to_string(core_.record.state.best_metric.value_or(0)) + ")");
  core_.accelerator.load_state(best, {.only_models = true});
}

}  // namespace accelerate::detail
