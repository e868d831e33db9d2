#include "accelerate/transformers/trainer/checkpoints/older_run.h"

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/checkpoint/checkpoint_folder.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/trainer/checkpoints/loop_record.h"
#include "accelerate/transformers/trainer/ranks.h"

namespace accelerate::detail {
namespace {

using Path = std::filesystem::path;

Path note_in(const Path& output_dir) {
  return output_dir / ".overwriting.json";
}

// Whether the call of train() that is named `run` saved the checkpoint.
bool is_of_run(const Path& folder, const std::string& run) {
  try {
    const auto record = LoopRecord::read(folder);
    return record && record->run == run;
  } catch (const CheckpointError&) {
    return false;
  }
}

// The highest step goes first: a training that goes on takes the highest one that is there.
void remove_all(const Path& output_dir, const std::vector<NumberedCheckpoint>& older) {
  for (auto one = older.rbegin(); one != older.rend(); ++one) {
    try {
      trainer_logger().info("removing " + one->folder.string() + " of an older run");
      remove_checkpoint(real_file_system(), std::filesystem::absolute(one->folder),
                        Replaces::of_python_too);
    } catch (const Error& error) {
      trainer_logger().warning("a checkpoint of an older run stays: " + describe(error));
    }
  }
  std::error_code ignored;
  std::filesystem::remove(note_in(output_dir), ignored);
}

// A note that was not written by us, or not in whole, says nothing.
Node read_note(const Path& output_dir) {
  try {
    return read_json(read_file(real_file_system(), note_in(output_dir), std::size_t{1} << 24),
                     ".overwriting.json");
  } catch (const ConfigError& error) {
    trainer_logger().warning("a note is passed over: " + describe(error));
    return {};
  }
}

void settle_note(const Path& output_dir) {
  const Node note = read_note(output_dir);
  const Node* run = note.find("run");
  const Node* steps = note.find("older");
  std::vector<NumberedCheckpoint> older;
  bool has_own = false;
  for (auto& one : step_checkpoints(output_dir)) {
    const bool is_own = run != nullptr && is_of_run(one.folder, run->text);
    has_own |= is_own;
    const bool is_noted =
        steps != nullptr && std::ranges::any_of(steps->items, [&](const Node& step) {
          return parse_int(step.text) == one.number;
        });
    if (is_noted && !is_own) older.push_back(std::move(one));
  }
  if (!has_own) older.clear();
  remove_all(output_dir, older);
}

}  // namespace

std::vector<NumberedCheckpoint> step_checkpoints(const Path& output_dir) {
  return numbered_checkpoints(real_file_system(), output_dir, kStepPrefix);
}

void OlderRun::settle(const Path& output_dir) {
  if (!std::filesystem::is_directory(output_dir)) return;
  restore_put_aside(real_file_system(), output_dir);
  if (std::filesystem::exists(note_in(output_dir))) settle_note(output_dir);
}

void OlderRun::note(const Path& output_dir, std::vector<NumberedCheckpoint> older,
                    const std::string& run) {
  output_dir_ = output_dir;
  older_ = std::move(older);
  if (older_.empty()) return;
  std::vector<Node> steps;
  for (const auto& one : older_) steps.push_back(Node::integer(one.number));
  write_file_atomically(real_file_system(), note_in(output_dir),
                        write_json(Node::map({{"run", 0, Node::string(run)},
                                              {"older", 0, Node::sequence(std::move(steps))}})));
}

void OlderRun::drop(std::optional<std::int64_t> step) {
  if (older_.empty()) return;
  std::erase_if(older_, [&](const NumberedCheckpoint& one) { return one.number == step; });
  remove_all(output_dir_, older_);
  older_.clear();
}

}  // namespace accelerate::detail
