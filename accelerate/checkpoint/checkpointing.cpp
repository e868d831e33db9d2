#include "accelerate/checkpoint/checkpointing.h"

#include <c10/util/Type.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <ranges>
#include <utility>
#include <variant>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/checkpoint/byte_progress.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/checkpoint/python/python_state.h"
#include "accelerate/comm/announced_call.h"
#include "accelerate/comm/objects.h"
#include "accelerate/formats/shards/shard_files.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

constexpr const char* kNumberedPrefix = "checkpoint_";

const Logger& checkpoint_log() {
  static const Logger instance = get_logger("accelerate.checkpoint");
  return instance;
}

FileSystem& files() {
  return real_file_system();
}

// A state that can be loaded: a checkpoint of ours that was checked, or a folder that Python wrote.
using SavedState = std::variant<CheckedCheckpoint, PythonState>;

bool may_be_removed(const Path& folder) {
  try {
    check_replaceable(files(), folder);
    return true;
  } catch (const CheckpointError& error) {
    checkpoint_log().warning("not removed by total_limit: " + accelerate::describe(error));
    return false;
  }
}

// Whether `name` is a name of our files, with or without a number: "model_1.safetensors",
// "manifest.json".
bool is_reserved(const std::string& name) {
  if (name == Manifest::kName || ShardFileName::parse(name)) return true;
  const Path path(name);
  if (path.extension() != ".json" && path.extension() != ".safetensors") return false;
  std::string stem = path.stem().string();
  const auto digits = stem.find_last_not_of("0123456789") + 1;
  if (digits < stem.size() && digits > 0 && stem[digits - 1] == '_') stem.resize(digits - 1);
  constexpr std::array kStems = {"model",       "optimizer",     "scheduler",
                                 "dataloader",  "scaler",        "custom_checkpoint",
                                 "accelerator", "random_states", "gradients"};
  return std::ranges::find(kStems, stem) != kStems.end();
}

void check_names_of_hooks(const Path& folder) {
  for (const auto& name : files().list(folder)) {
    if (is_reserved(name))
      throw CheckpointError("a hook wrote '" + name +
                            "', which is a name of the checkpoint's own files; choose another");
  }
}

std::vector<std::int64_t> common_to_all(const std::vector<std::vector<std::int64_t>>& disks) {
  auto common = disks.front();
  for (const auto& numbers : disks) {
    std::erase_if(common,
                  [&](auto number) { return std::ranges::find(numbers, number) == numbers.end(); });
  }
  return common;
}

std::string text_of(const SaveStateOptions& options) {
  const auto word = [](bool value) { return std::string(value ? "true" : "false"); };
  return "{.asynchronous = " + word(options.asynchronous) +
         ", .sharded = " + word(options.sharded) +
         (options.whole_models ? ", .whole_models = true" : "") +
         (options.only_models ? ", .only_models = true" : "") + "}";
}

// A rank with other options than its peers would wait for data that they never send.
void require_same_options(const std::vector<std::string>& asked) {
  const auto other = std::ranges::find_if(asked, [&](const auto& one) { return one != asked[0]; });
  if (other == asked.end()) return;
  throw UsageError("save_state() was called with " + asked[0] + " on rank 0 and with " + *other +
                   " on rank " + std::to_string(other - asked.begin()) +
                   ": give all ranks the same options");
}

[[noreturn]] void refuse_taken(const Path& folder) {
  throw CheckpointError(folder.string() +
                            " is there already: an earlier run saved it. Load the newest one by "
                            "load_state(), which sets the iteration, or set_save_iteration(), or "
                            "choose another project_dir",
                        error_name::kEarlierRun);
}

void refuse_shards_on_several_disks(const SaveStateOptions& options,
                                    const TrainingState& training) {
  if (!options.sharded && !training.is_sharded()) return;
  throw UsageError(std::string("save_state() would write shards (") +
                   (options.sharded ? "sharded = true" : "the model is sharded") +
                   "), but project_config.save_on_each_node is true. All shards of a state must be "
                   "on one file system. Switch one of the two off");
}

void refuse_whole_shards(const SaveStateOptions& options) {
  if (!options.sharded || !options.whole_models) return;
  throw UsageError(
      "save_state() was given both sharded and whole_models: leave one of the two out");
}

// Rank 0 decides who wrote the folder: other ranks may not see all of its files.
SavedState find_state(const Path& folder, Communicator& ranks, int disk_leader) {
  bool by_python = false;
  on_all_ranks(ranks, [&] {
    by_python = ranks.rank() == 0 && writer_of(files(), folder) != StateWriter::this_library;
  });
  if (!broadcast_object(ranks, by_python))
    return check_checkpoint(files(), ranks, folder, disk_leader);
  PythonState found;
  on_all_ranks(ranks, [&] { found = list_python_state(files(), folder); });
  return found;
}

const Path& folder_of(const SavedState& saved) {
  return std::visit([](const auto& state) -> const Path& { return state.folder; }, saved);
}

const Manifest& manifest_of(const SavedState& saved) {
  return std::visit([](const auto& state) -> const Manifest& { return state.manifest; }, saved);
}

CheckedTraining read_state(const SavedState& saved, const TrainingState& training,
                           LoadScope scope) {
  if (const auto* python = std::get_if<PythonState>(&saved))
    return read_python_state(files(), *python, training, scope);
  return read_training_state(files(), std::get<CheckedCheckpoint>(saved), training, scope);
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

// Calls copies, since a hook may add hooks and remove itself.
void Checkpointing::run(const Hooks& hooks, const Path& folder) {
  for (const auto& hook : Hooks(hooks)) {
    const StateHook call = *hook;
    if (call) call(folder);
  }
}

void Checkpointing::check_folder(const Path& output_dir, const std::string& call) const {
  const bool is_automatic = config_.automatic_checkpoint_naming;
  if (!is_automatic && output_dir.empty())
    throw UsageError(call + " needs a folder, or project_config.automatic_checkpoint_naming");
  if (is_automatic && !output_dir.empty())
    throw UsageError(call + " was given '" + output_dir.string() +
                     "', but automatic_checkpoint_naming chooses the folder: leave one of the two "
                     "out");
}

Path Checkpointing::folder_to_save(const Path& output_dir) const {
  check_folder(output_dir, "save_state()");
  if (config_.automatic_checkpoint_naming) return numbered(iteration_);
  return std::filesystem::absolute(output_dir).lexically_normal();
}

Path Checkpointing::numbered(std::int64_t number) const {
  return std::filesystem::absolute(checkpoints() / (kNumberedPrefix + std::to_string(number)))
      .lexically_normal();
}

// Resolves links: otherwise the link would be replaced, and the folder it leads to would stay.
Path Checkpointing::new_folder(const Path& output_dir, const SaveStateOptions& options,
                               Communicator& ranks) const {
  Path folder = folder_to_save(output_dir);
  if (folder.filename().empty()) folder = folder.parent_path();  // "out/"
  bool taken = false;
  on_all_ranks(ranks, [&] {
    folder = std::filesystem::weakly_canonical(folder);
    taken = leads(ranks) && config_.automatic_checkpoint_naming &&
            files().status(folder).kind != FileKind::none;
  });
  using Asked = std::pair<bool, std::string>;
  std::vector<std::string> asked;
  for (auto& [is_taken, text] : gather_object(ranks, Asked(taken, text_of(options)))) {
    taken = taken || is_taken;
    asked.push_back(std::move(text));
  }
  require_same_options(asked);
  refuse_whole_shards(options);
  if (taken) refuse_taken(folder);
  return folder;
}

Path Checkpointing::save(const Path& output_dir, const SaveStateOptions& options,
                         const DescribeToSave& describe, Communicator& ranks) {
  const AnnouncedCall call("save_state()");
  background_.wait_before(ranks);
  require_agreement(ranks, "save_state()", "this training");
  const Path folder = new_folder(output_dir, options, ranks);
  TrainingState training = describe();
  if (options.only_models) training.parts.clear();
  if (config_.save_on_each_node) refuse_shards_on_several_disks(options, training);
  checkpoint_log().info("saving the state in " + folder.string());
  const auto checkpoint = std::make_shared<PendingCheckpoint>(
      files(), ranks, folder,
      CheckpointDisk{.leader = disk_leader_,
                     .replaces = options.over_python ? Replaces::of_python_too : Replaces::own});
  auto planned = plan(*checkpoint, options, training, ranks);
  const auto number = iteration_;
  if (options.asynchronous) {
    background_.start(
        ranks, [this, checkpoint, number, planned = std::move(planned)](Communicator& group) {
          complete(*checkpoint, planned, number, group);
        });
  } else {
    complete(*checkpoint, planned, number, ranks);
  }
  if (config_.automatic_checkpoint_naming) ++iteration_;
  return folder;
}

// Plans what this rank writes. An asynchronous save gets copies of the tensors.
SavePlan Checkpointing::plan(PendingCheckpoint& checkpoint, const SaveStateOptions& options,
                             const TrainingState& training, Communicator& ranks) {
  const SaveLayout layout = layout_of(options, training);
  const bool writes_common = layout != SaveLayout::by_leaders || leads(ranks);
  std::optional<SavePlan> plan;
  checkpoint.prepare(ranks, [&] {
    run(save_hooks_, checkpoint.temporary());
    check_names_of_hooks(checkpoint.temporary());
    plan.emplace(layout, plan_training_state(
                             training, writes_common ? RankFiles::own_and_common : RankFiles::own));
  });
  plan->agree(ranks);
  const auto finish = [&] {
    plan->divide();
    if (options.asynchronous)
      plan->copy([this](auto planned) { return background_.copy(std::move(planned)); });
  };
  // Otherwise it cannot fail, and the ranks need not wait for each other.
  if (options.asynchronous || plan->has_shards())
    checkpoint.prepare(ranks, finish);
  else
    finish();
  return std::move(*plan);
}

// Runs on another thread if the save is asynchronous, so it must not touch anything that changes.
void Checkpointing::complete(PendingCheckpoint& checkpoint, const SavePlan& plan,
                             std::int64_t number, Communicator& ranks) const {
  const AnnouncedCall call("save_state()");
  checkpoint.complete(ranks, [&](const Path& temporary) {
    ByteProgress progress(
        {.description = "saving the state", .total_bytes = planned_bytes(plan.files())});
    std::vector<ManifestFile> written;
    plan.together(
        [&] { written = write_planned(files(), temporary, plan.files(), std::ref(progress)); });
    return written;
  });
  if (config_.total_limit && leads(ranks)) prune(number);
}

std::vector<NumberedCheckpoint> Checkpointing::numbered_here() const {
  return numbered_checkpoints(files(), checkpoints(), kNumberedPrefix);
}

// Keeps the checkpoint that was just saved, and the checkpoints with the greatest numbers. A folder
// that is not a complete checkpoint of ours is neither counted nor removed. Failing to remove an
// old checkpoint does not end the training.
void Checkpointing::prune(std::int64_t saved) const {
  try {
    auto all = numbered_here();
    for (const auto& [number, folder] : all | std::views::reverse)
      if (number > saved)
        checkpoint_log().warning(folder.string() +
                                 " is there: load_state() takes it for newer than " +
                                 numbered(saved).filename().string());
    std::erase_if(
        all, [&](const auto& one) { return one.number != saved && !may_be_removed(one.folder); });
    std::ranges::stable_partition(all, [&](const auto& one) { return one.number != saved; });
    const auto old = beyond_limit(std::move(all), *config_.total_limit);
    for (const auto& one : old | std::views::reverse) remove_checkpoint(files(), one.folder);
  } catch (const Error& error) {
    checkpoint_log().warning("an old checkpoint stays: " + accelerate::describe(error));
  }
}

// Returns the numbers of the checkpoints on each disk, lowest first.
std::vector<std::vector<std::int64_t>> Checkpointing::numbers_on_disks(Communicator& ranks) const {
  std::vector<std::int64_t> mine;
  on_all_ranks(ranks, [&] {
    if (!leads(ranks)) return;
    for (const auto& [number, folder] : numbered_here()) mine.push_back(number);
  });
  using Found = std::pair<bool, std::vector<std::int64_t>>;
  std::vector<std::vector<std::int64_t>> disks;
  for (auto& [leader, numbers] : gather_object(ranks, Found(leads(ranks), mine)))
    if (leader) disks.push_back(std::move(numbers));
  return disks;
}

Path Checkpointing::find_newest(const LoadStateOptions& options, Communicator& ranks) const {
  if (!config_.automatic_checkpoint_naming)
    throw UsageError("load_state() needs a folder, or project_config.automatic_checkpoint_naming");
  const auto candidates = common_to_all(numbers_on_disks(ranks));
  for (const auto number : candidates | std::views::reverse) {
    const Path candidate = numbered(number);
    if (!options.skip_damaged) return candidate;
    try {
      return folder_of(find_state(candidate, ranks, disk_leader_));
    } catch (const CheckpointError& error) {
      checkpoint_log().warning("left out: " + accelerate::describe(error));
    }
  }
  throw CheckpointError("there is no " + std::string(candidates.empty() ? "" : "undamaged ") +
                            "checkpoint in " + std::filesystem::absolute(checkpoints()).string(),
                        error_name::kNoCheckpoint);
}

Path Checkpointing::load(const Path& input_dir, const LoadStateOptions& options,
                         const DescribeToLoad& describe, Communicator& ranks) {
  const AnnouncedCall call("load_state()");
  background_.wait_before(ranks);
  require_agreement(ranks, "load_state()", "this training");
  Path folder = input_dir.empty() ? find_newest(options, ranks)
                                  : std::filesystem::absolute(input_dir).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();
  const SavedState found = find_state(folder, ranks, disk_leader_);
  folder = folder_of(found);
  checkpoint_log().info("loading the state in " + folder.string());
  std::optional<CheckedTraining> checked;
  on_all_ranks(ranks, [&] {
    run(load_hooks_, folder);
    TrainingState training = describe(manifest_of(found));
    if (options.only_models) training.parts.clear();
    checked = read_state(found, training,
                         options.only_models ? LoadScope::models : LoadScope::everything);
  });
  checked->load_what_may_refuse([&](const auto& step) { on_all_ranks(ranks, step); });
  on_all_ranks(ranks, [&] { checked->load_the_rest(); });
  checked->load_updated();
  if (config_.automatic_checkpoint_naming) {
    // Also beyond a damaged checkpoint that was skipped, and beyond checkpoints newer than this
    // one.
    for (const auto& numbers : numbers_on_disks(ranks))
      if (!numbers.empty()) iteration_ = std::max(iteration_, numbers.back() + 1);
  }
  return folder;
}

}  // namespace accelerate::detail
