#include "accelerate/accelerator/checkpointing.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/checkpoint/byte_progress.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/python_state.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/comm/objects.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

const Logger& logger() {
  static const Logger instance = get_logger("accelerate.checkpoint");
  return instance;
}

FileSystem& files() {
  return real_file_system();
}

// A state that can be loaded: a checkpoint of ours, checked, or a folder of Python Accelerate.
struct Loadable {
  Path folder;
  Manifest manifest;
  bool of_python = false;
};

Loadable find_state(const Path& folder, Communicator& ranks, int disk_leader) {
  bool of_python = false;
  on_all_ranks(ranks, [&] { of_python = ranks.rank() == 0 && is_python_state(files(), folder); });
  if (broadcast_object(ranks, of_python)) {
    Loadable found{folder, {}, true};
    on_all_ranks(ranks, [&] { found.manifest = python_state_manifest(files(), folder); });
    return found;
  }
  auto [place, manifest] = check_checkpoint(files(), ranks, folder, disk_leader);
  return {std::move(place), std::move(manifest)};
}

}  // namespace

Checkpointing::Checkpointing(Path project_dir, const ProjectConfiguration& config, int disk_leader)
    : project_dir_(std::move(project_dir)),
      config_(config),
      disk_leader_(disk_leader),
      iteration_(config.iteration) {}

void Checkpointing::set_iteration(std::int64_t iteration) {
  if (iteration < 0)
    throw UsageError("save_iteration is " + std::to_string(iteration) + "; allowed is 0 or more");
  iteration_ = iteration;
}

void Checkpointing::add(CheckpointedObject object) {
  for (const auto& other : objects_) {
    if (other.address == object.address)
      throw UsageError("register_for_checkpointing was given the same " +
                       c10::demangle(object.type.c_str()) + " twice");
  }
  objects_.push_back(std::move(object));
}

RemovableHandle Checkpointing::add_hook(Hooks& hooks, StateHook hook) {
  if (!hook) throw UsageError("the hook is empty; it must be a function of a folder");
  hooks.push_back(std::make_shared<StateHook>(std::move(hook)));
  return RemovableHandle(hooks.back());
}

void Checkpointing::run(const Hooks& hooks, const Path& folder) {
  for (const auto& hook : hooks)
    if (*hook) (*hook)(folder);
}

Path Checkpointing::folder_to_save(const Path& output_dir) const {
  if (!config_.automatic_checkpoint_naming) {
    if (output_dir.empty())
      throw UsageError(
          "save_state() needs a folder, or project_config.automatic_checkpoint_naming");
    return std::filesystem::absolute(output_dir).lexically_normal();
  }
  if (!output_dir.empty())
    throw UsageError("save_state() was given '" + output_dir.string() +
                     "', but automatic_checkpoint_naming chooses the folder: leave one of the two "
                     "out");
  return numbered(iteration_);
}

Path Checkpointing::numbered(std::int64_t number) const {
  return std::filesystem::absolute(checkpoints() / ("checkpoint_" + std::to_string(number)))
      .lexically_normal();
}

Path Checkpointing::new_folder(const Path& output_dir, Communicator& ranks) const {
  Path folder = folder_to_save(output_dir);
  if (folder.filename().empty()) folder = folder.parent_path();  // "out/"
  const bool taken = leads(ranks) && config_.automatic_checkpoint_naming &&
                     files().status(folder).kind != FileKind::none;
  const auto on_disks = gather_object(ranks, taken);
  if (std::ranges::find(on_disks, true) != on_disks.end())
    throw CheckpointError(folder.string() +
                          " is there already: an earlier run saved it. Load the newest one by "
                          "load_state(), which sets the iteration, or set_save_iteration(), or "
                          "choose another project_dir");
  return folder;
}

Path Checkpointing::save(const Path& output_dir, const SaveStateOptions& options,
                         const Describe& describe, Communicator& ranks) {
  if (options.sharded && config_.save_on_each_node)
    throw UsageError(
        "save_state() was asked for shards, and project_config.save_on_each_node is true: shards "
        "of "
        "one state lie on one file system; leave one of the two out");
  wait();
  const Path folder = new_folder(output_dir, ranks);
  const TrainingState training = describe({.num_processes = ranks.size(), .files = {}});
  logger().info("saving the state in " + folder.string());
  const auto checkpoint = std::make_shared<PendingCheckpoint>(files(), ranks, folder, disk_leader_);
  auto planned = plan(*checkpoint, options, training, ranks);
  if (options.asynchronous) {
    background_.start(ranks, [this, checkpoint, planned = std::move(planned)](Communicator& group) {
      complete(*checkpoint, planned, group);
    });
  } else {
    complete(*checkpoint, planned, ranks);
  }
  if (config_.automatic_checkpoint_naming) ++iteration_;
  return folder;
}

// What this rank writes; a copy of it when the training is to go on meanwhile.
std::vector<PlannedFile> Checkpointing::plan(PendingCheckpoint& checkpoint,
                                             const SaveStateOptions& options,
                                             const TrainingState& training, Communicator& ranks) {
  const auto kept = [&](std::vector<PlannedFile> mine) {
    return options.asynchronous ? background_.copy(std::move(mine)) : mine;
  };
  std::vector<PlannedFile> planned;
  std::optional<ShardedPlan> shards;
  checkpoint.prepare(ranks, [&] {
    run(save_hooks_, checkpoint.temporary());
    auto all = plan_training_state(training, options.sharded || leads(ranks));
    if (options.sharded) {
      shards.emplace(std::move(all));
    } else {
      planned = kept(std::move(all));
    }
  });
  if (!shards) return planned;
  shards->agree(ranks);
  checkpoint.prepare(ranks, [&] { planned = kept(shards->share()); });
  return planned;
}

// Runs beside the training when the save is asynchronous: it touches nothing that changes.
void Checkpointing::complete(PendingCheckpoint& checkpoint, const std::vector<PlannedFile>& planned,
                             Communicator& ranks) const {
  ByteProgress progress({.description = "saving the state", .total_bytes = planned_bytes(planned)});
  checkpoint.complete(ranks, [&](const Path& temporary) {
    return write_planned(files(), temporary, planned, std::ref(progress));
  });
  if (config_.automatic_checkpoint_naming) prune(ranks);
}

// An old checkpoint that cannot be removed is no reason to lose the training.
void Checkpointing::prune(Communicator& ranks) const {
  if (!config_.total_limit || !leads(ranks)) return;
  const auto all = numbered_checkpoints(files(), checkpoints());
  for (auto i = static_cast<std::size_t>(*config_.total_limit); i < all.size(); ++i) {
    try {
      files().remove_tree(all[i].folder);
    } catch (const Error& error) {
      logger().warning("an old checkpoint stays: " + std::string(error.what()));
    }
  }
}

// Of the checkpoints that every disk has; greatest first.
std::vector<std::int64_t> Checkpointing::common_numbers(Communicator& ranks) const {
  std::vector<std::int64_t> mine;
  if (leads(ranks)) {
    for (const auto& [number, folder] : numbered_checkpoints(files(), checkpoints()))
      mine.push_back(number);
  }
  using Found = std::pair<bool, std::vector<std::int64_t>>;
  const auto found = gather_object(ranks, Found(leads(ranks), mine));
  auto common = found.front().second;  // Rank 0 leads.
  for (const auto& [leader, numbers] : found) {
    if (!leader) continue;
    std::erase_if(common,
                  [&](auto number) { return std::ranges::find(numbers, number) == numbers.end(); });
  }
  return common;
}

Path Checkpointing::find_newest(const LoadStateOptions& options, Communicator& ranks) const {
  if (!config_.automatic_checkpoint_naming)
    throw UsageError("load_state() needs a folder, or project_config.automatic_checkpoint_naming");
  const auto candidates = common_numbers(ranks);
  for (const auto number : candidates) {
    const Path candidate = numbered(number);
    if (!options.skip_damaged) return candidate;
    try {
      return find_state(candidate, ranks, disk_leader_).folder;
    } catch (const CheckpointError& error) {
      logger().warning("left out: " + accelerate::describe(error));
    }
  }
  throw CheckpointError("there is no " + std::string(candidates.empty() ? "" : "undamaged ") +
                        "checkpoint in " + std::filesystem::absolute(checkpoints()).string());
}

Path Checkpointing::load(const Path& input_dir, const LoadStateOptions& options,
                         const Describe& describe, Communicator& ranks) {
  wait();
  Path folder = input_dir.empty() ? find_newest(options, ranks)
                                  : std::filesystem::absolute(input_dir).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();
  const Loadable found = find_state(folder, ranks, disk_leader_);
  logger().info("loading the state in " + found.folder.string());
  on_all_ranks(ranks, [&] {
    run(load_hooks_, found.folder);
    const auto read = found.of_python ? read_python_state : read_training_state;
    read(files(), found.folder, found.manifest, describe(found.manifest));
  });
  return found.folder;
}

}  // namespace accelerate::detail
