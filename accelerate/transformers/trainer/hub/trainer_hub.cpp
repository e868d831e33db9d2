#include "accelerate/transformers/trainer/hub/trainer_hub.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/rank_phases.h"
#include "accelerate/comm/objects.h"
#include "accelerate/transformers/hub/push.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

constexpr const char* kEndMessage = "End of training";

// Whether a checkpoint's file belongs to the training and not to the model.
bool is_of_training(const std::string& name) {
  constexpr const char* kStems[] = {"optimizer",     "scheduler",     "dataloader",
                                    "scaler",        "accelerator",   "random_states",
                                    "gradients",     "manifest",      "custom_checkpoint",
                                    "trainer_state", "training_loop", "sampler"};
  return std::ranges::any_of(kStems, [&](const char* stem) { return name.starts_with(stem); });
}

// Files never change once they are written, so a link is as good as a copy.
void link_files(const Path& from, const Path& to, bool of_model_alone) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || (of_model_alone && is_of_training(name))) continue;
    std::error_code error;
    std::filesystem::create_hard_link(entry.path(), to / name, error);
    if (error) std::filesystem::copy_file(entry.path(), to / name);
  }
}

std::string progress_message(const ResolvedArguments& args, const TrainerState& state) {
  return args.save_strategy == SaveStrategy::steps
             ? "Training in progress, step " + std::to_string(state.global_step)
             : "Training in progress, epoch " +
                   std::to_string(static_cast<std::int64_t>(state.epoch));
}

}  // namespace

TrainerHub::~TrainerHub() {
  try {
    wait();
  } catch (const std::exception& error) {
    trainer_logger().warning(error.what());
  }
}

HubOptions TrainerHub::hub_options() const {
  HubOptions options;
  if (!core_.args.hub_token.empty()) options.token = core_.args.hub_token;
  if (!core_.args.hub_revision.empty()) options.revision = core_.args.hub_revision;
  options.show_progress = false;
  return options;
}

// The main process asks the hub, and all ranks learn the result.
void TrainerHub::make_repository() {
  if (!core_.args.push_to_hub || !repo_id_.empty()) return;
  const auto& id = core_.args.hub_model_id;
  const std::string name = id.empty() ? core_.args.output_name() : id;
  std::string found;
  on_main_process(core_.accelerator, [&] {
    try {
      found = owned_repo_id(name, hub_options());
      create_repo(found, hub_options(),
                  {.is_private = core_.args.hub_private_repo, .exist_ok = true});
    } catch (const Error&) {
      throw_with_context<ConfigError>(
          "push_to_hub is set, and the repository '" + name +
          "' cannot be pushed to: log in by `accelerate hub login` or set hub_token, look "
          "whether the hub can be reached, or train without push_to_hub");
    }
  });
  repo_id_ = broadcast_object(core_.accelerator.communicator(), found);
}

bool TrainerHub::is_busy() const {
  return !std::ranges::all_of(pending_, &Pending::is_done);
}

Path TrainerHub::new_staging() {
  const Path folder = Path(core_.args.output_dir) /
                      (".push-" + std::to_string(::getpid()) + "-" + std::to_string(stagings_++));
  std::filesystem::remove_all(folder);
  return folder;
}

void TrainerHub::start(const Path& staging, const std::string& path_in_repo,
                       const std::string& message) {
  if (!uploads_) uploads_.emplace();
  pending_.push_back({staging, uploads_->upload_folder(repo_id_, staging, hub_options(),
                                                       {.path_in_repo = path_in_repo,
                                                        .commit = {.commit_message = message}})});
}

void TrainerHub::write_card(const Path& folder) const {
  write_file_atomically(real_file_system(), folder / "README.md", run_card(core_));
}

void TrainerHub::push_checkpoint(const Path& folder) {
  const auto strategy = static_cast<HubStrategy>(core_.args.hub_strategy);
  if (repo_id_.empty() || strategy == HubStrategy::end || !core_.accelerator.is_main_process())
    return;
  if (is_busy() && !core_.args.hub_always_push) return;
  core_.record.call(&TrainerCallback::on_push_begin);
  try {
    stage_checkpoint(folder);
  } catch (const std::exception& error) {
    trainer_logger().warning(folder.string() + " is complete, and cannot be pushed to " + repo_id_ +
                             ": " + describe(error) + ". The training continues");
  }
}

void TrainerHub::stage_checkpoint(const Path& folder) {
  for (auto& pending : std::exchange(pending_, {}))
    pending.is_done() ? settle(pending) : pending_.push_back(std::move(pending));
  const auto strategy = static_cast<HubStrategy>(core_.args.hub_strategy);
  const std::string message = progress_message(core_.args, core_.record.state);
  const Path model = new_staging();
  link_files(folder, model, true);
  write_card(model);
  start(model, "", message);
  if (strategy == HubStrategy::every_save) return;
  const Path whole = new_staging();
  link_files(folder, whole, false);
  const bool keeps_one = strategy == HubStrategy::checkpoint;
  start(whole, keeps_one ? "last-checkpoint" : folder.filename().string(),
        message + ", checkpoint");
}

void TrainerHub::settle(Pending& pending) {
  try {
    (void)pending.done.get();
  } catch (const std::exception& error) {
    trainer_logger().warning("a push to " + repo_id_ + " failed: " + describe(error) +
                             ". Its checkpoint is complete in " + core_.args.output_dir +
                             ", and the next push sends the model as it is then");
  }
  std::error_code ignored;
  std::filesystem::remove_all(pending.staging, ignored);
}

void TrainerHub::wait() {
  for (auto& pending : std::exchange(pending_, {})) settle(pending);
}

// The training is done: its result is worth more than the push, which can be repeated.
void TrainerHub::push_at_end() {
  if (!core_.args.push_to_hub) return;
  try {
    (void)push(kEndMessage);
  } catch (const std::exception& error) {
    trainer_logger().warning("the training is complete, and its model was not pushed to " +
                             repo_id_ + ": " + describe(error) + ". " + how_to_push());
  }
}

// Says where the model is, and how it gets to the hub.
std::string TrainerHub::how_to_push() const {
  if (unsent_.empty())
    return "The model is in memory: save it by save_model(), or push it by push_to_hub()";
  std::string command = "accelerate hub upload " + repo_id_ + " " + shell_word(unsent_.string());
  if (!core_.args.hub_revision.empty())
    command += " --revision " + shell_word(core_.args.hub_revision);
  return "The model with its tokenizer and card is in " + unsent_.string() + ". Push it by `" +
         command + "`, or by push_to_hub()";
}

CommitInfo TrainerHub::push(const std::string& commit_message) {
  if (!core_.args.push_to_hub)
    throw UsageError(
        "push_to_hub() needs the argument push_to_hub = true, which names and makes "
        "the repository");
  make_repository();
  wait();
  const Path staging = Path(core_.args.output_dir) / ".push-end";
  unsent_.clear();
  auto& model = core_.trained.prepared_model();
  core_.trained.set_training_mode(false);
  core_.accelerator.save_model(model, staging, "50GB");
  CommitInfo commit;
  on_all_ranks(core_.accelerator.communicator(), [&] {
    if (!core_.accelerator.is_main_process()) return;
    core_.record.call(&TrainerCallback::on_push_begin);
    write_model_files(core_, staging);
    write_card(staging);
    unsent_ = staging;
    commit = upload_folder(repo_id_, staging, hub_options(),
                           {.commit = {.commit_message = commit_message}});
    std::error_code ignored;
    std::filesystem::remove_all(staging, ignored);
    unsent_.clear();
  });
  return commit;
}

}  // namespace accelerate::detail
