#include "accelerate/transformers/trainer/callbacks/tracking_callback.h"

#include <filesystem>
#include <string>
#include <string_view>

#include "accelerate/accelerator/accelerator.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"

namespace accelerate {
namespace {

std::string tracked_name(const std::string& name) {
  for (const std::string_view split : {"eval_", "test_"})
    if (name.starts_with(split))
      return std::string(split.substr(0, split.size() - 1)) + "/" + name.substr(split.size());
  return "train/" + name;
}

// Returns the settings to compare runs by, as texts. Lists and maps are left out.
TrackerConfig settings_of(const TrainingArguments& args) {
  TrackerConfig settings;
  for (const auto& [name, line, node] : to_node(args).entries)
    if (node.is_scalar()) settings.emplace_back(name, node.text);
  return settings;
}

// A run without a name is called after its folder, wherever that is.
std::string run_name_of(const TrainingArguments& args) {
  if (args.run_name != args.output_dir) return args.run_name;
  auto folder = std::filesystem::absolute(args.output_dir).lexically_normal();
  if (folder.filename().empty()) folder = folder.parent_path();
  return folder.filename().string();
}

}  // namespace

void TrackingCallback::on_log(TrainerEvent& event, const LogValues& logs) {
  if (!started_) {
    event.accelerator.init_trackers(run_name_of(event.args), settings_of(event.args));
    started_ = true;
  }
  TrackerValues values;
  for (const auto& [name, value] : logs) values.emplace_back(tracked_name(name), value);
  event.accelerator.log(values, event.state.global_step);
}

}  // namespace accelerate
