// Saves and loads the whole training: chooses the folder, runs the hooks, keeps the registered
// objects.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/checkpoint/background_save.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/checkpointable.h"
#include "accelerate/checkpoint/numbered_checkpoints.h"
#include "accelerate/checkpoint/save_plan.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/state/project_configuration.h"
#include "accelerate/formats/manifest.h"

namespace accelerate::detail {

class Checkpointing {
 public:
  /// Describes the training as it is saved now.
  using DescribeToSave = std::function<TrainingState()>;
  /// Describes what the checkpoint of `manifest` has of the training: a checkpoint of another
  /// number of ranks holds other files of ranks.
  using DescribeToLoad = std::function<TrainingState(const Manifest& manifest)>;

  /// `disk_leader`: the lowest of the ranks that share this rank's disk; see PendingCheckpoint.
  Checkpointing(std::filesystem::path project_dir, const ProjectConfiguration& config,
                int disk_leader);

  /// See Accelerator::save_state and load_state. [collective]
  std::filesystem::path save(const std::filesystem::path& output_dir,
                             const SaveStateOptions& options, const DescribeToSave& describe,
                             Communicator& ranks);
  std::filesystem::path load(const std::filesystem::path& input_dir,
                             const LoadStateOptions& options, const DescribeToLoad& describe,
                             Communicator& ranks);

  /// Throws UsageError, which names `call`, unless save() may be given `output_dir`.
  void check_folder(const std::filesystem::path& output_dir, const std::string& call) const;

  /// See Accelerator::wait_for_save.
  void wait(const Communicator& ranks) { background_.wait_before(ranks); }
  /// As wait(), and frees the memory of asynchronous saves.
  void finish(const Communicator& ranks) { background_.release(ranks); }

  /// Throws UsageError for an object that is registered already.
  void add(CheckpointedObject object);
  [[nodiscard]] const std::vector<CheckpointedObject>& objects() const { return objects_; }

  RemovableHandle add_save_hook(StateHook hook) { return add_hook(save_hooks_, std::move(hook)); }
  RemovableHandle add_load_hook(StateHook hook) { return add_hook(load_hooks_, std::move(hook)); }
  [[nodiscard]] bool has_hooks() const { return !save_hooks_.empty() || !load_hooks_.empty(); }

  [[nodiscard]] std::int64_t iteration() const { return iteration_; }
  /// The value of iteration() once the present save is complete.
  [[nodiscard]] std::int64_t next_iteration() const {
    return config_.automatic_checkpoint_naming ? iteration_ + 1 : iteration_;
  }
  /// Throws UsageError if `iteration` is negative.
  void set_iteration(std::int64_t iteration);

 private:
  using Hooks = std::vector<std::shared_ptr<StateHook>>;

  static RemovableHandle add_hook(Hooks& hooks, StateHook hook);
  static void run(const Hooks& hooks, const std::filesystem::path& folder);
  [[nodiscard]] std::filesystem::path new_folder(const std::filesystem::path& output_dir,
                                                 const SaveStateOptions& options,
                                                 Communicator& ranks) const;
  [[nodiscard]] SavePlan plan(PendingCheckpoint& checkpoint, const SaveStateOptions& options,
                              const TrainingState& training, Communicator& ranks);
  void complete(PendingCheckpoint& checkpoint, const SavePlan& plan, std::int64_t number,
                Communicator& ranks) const;
  [[nodiscard]] std::filesystem::path folder_to_save(const std::filesystem::path& output_dir) const;
  [[nodiscard]] std::filesystem::path find_newest(const LoadStateOptions& options,
                                                  Communicator& ranks) const;
  [[nodiscard]] std::filesystem::path checkpoints() const { return project_dir_ / "checkpoints"; }
  [[nodiscard]] std::vector<NumberedCheckpoint> numbered_here() const;
  void prune(std::int64_t saved) const;
  [[nodiscard]] std::filesystem::path numbered(std::int64_t number) const;
  [[nodiscard]] std::vector<std::vector<std::int64_t>> numbers_on_disks(Communicator& ranks) const;
  /// Whether this rank does the work that one rank per disk must do.
  [[nodiscard]] bool leads(const Communicator& ranks) const { return ranks.rank() == disk_leader_; }

  std::filesystem::path project_dir_;
  ProjectConfiguration config_;
  int disk_leader_;
  std::int64_t iteration_;
  std::vector<CheckpointedObject> objects_;
  Hooks save_hooks_, load_hooks_;
  BackgroundSave background_;  // Last: its destructor waits while all else exists.
};

}  // namespace accelerate::detail
