// Pushes a Trainer's model to the hub, in the background while it trains.
#pragma once

#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/upload.h"
#include "accelerate/transformers/trainer/trainer_core.h"

namespace accelerate::detail {

// Writes the card of a model that a Trainer trained, from the run.

/// Returns the text of README.md: what the model was made from, how it was trained, and how well it
/// did.
/// Source of the sections: `TrainingSummary` of Transformers.
[[nodiscard]] std::string run_card(const TrainerCore& core);

/// Uploads on rank 0. Each upload gets its own folder of hard links, so that the rotation of
/// checkpoints removes nothing that is still being sent.
class TrainerHub {
 public:
  explicit TrainerHub(TrainerCore& core) : core_(core) {}
  ~TrainerHub();
  TrainerHub(const TrainerHub&) = delete;
  TrainerHub& operator=(const TrainerHub&) = delete;

  /// With push_to_hub, makes the repository if there is none. [collective] Throws ConfigError on
  /// all ranks without a token or a network.
  void make_repository();
  /// Begins to send the model of a checkpoint, and with hub_strategy checkpoint or all_checkpoints
  /// the checkpoint itself. Does nothing while an earlier push is under way, unless hub_always_push
  /// is set. Where the disk has no room for it, warns. Local.
  void push_checkpoint(const std::filesystem::path& folder);
  /// With push_to_hub, sends the model as it is at the end of the training, with its card. If that
  /// fails, warns, and says where the model is and how to push it later. [collective]
  void push_at_end();
  /// Saves the model, sends it and waits. [collective] Throws what upload_folder() throws.
  CommitInfo push(const std::string& commit_message);
  /// Waits until no push is under way. A push that failed is a warning. Local.
  void wait();

 private:
  struct Pending {
    std::filesystem::path staging;
    std::future<CommitInfo> done;
    [[nodiscard]] bool is_done() const {
      return done.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    }
  };

  [[nodiscard]] HubOptions hub_options() const;
  [[nodiscard]] bool is_busy() const;
  [[nodiscard]] std::filesystem::path new_staging();
  void stage_checkpoint(const std::filesystem::path& folder);
  [[nodiscard]] std::string how_to_push() const;
  void start(const std::filesystem::path& staging, const std::string& path_in_repo,
             const std::string& message);
  void write_card(const std::filesystem::path& folder) const;
  void settle(Pending& pending);

  TrainerCore& core_;
  std::string repo_id_;
  std::filesystem::path unsent_;  // What push() was about to send; empty when it has been sent.
  int stagings_ = 0;
  std::optional<BackgroundUploads> uploads_;
  std::vector<Pending> pending_;
};

}  // namespace accelerate::detail
