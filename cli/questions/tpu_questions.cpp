#include <filesystem>

#include "cli/questions/section_questions.h"

namespace accelerate::cli {
namespace {

void ask_about_commands(Asking& ask, ClusterConfig& config) {
  if (ask.yes("Are they in a file?", false, help_of("command_file"))) {
    const std::string file = ask.text("Which file?", "", help_of("command_file"));
    config.command_file = std::filesystem::absolute(file).lexically_normal().string();
    return;
  }
  config.commands.emplace();
  do {
    config.commands->push_back(ask.text("Which command?", "", help_of("commands")));
  } while (ask.yes("Another command?", false, help_of("commands")));
}

}  // namespace

void ask_about_tpu(Asking& ask, ClusterConfig& config) {
  ask.text_for("main_training_function", "Which function of the program trains?", "main");
  if (!ask.yes_for("tpu_use_cluster", "Is it a cluster (a pod)?", false)) return;
  ask.text_for("tpu_name", "What is the cluster called?");
  ask.text_for("tpu_zone", "In which zone is it?");
  ask.yes_for("tpu_use_sudo", "Run commands there by sudo?", false);
  if (ask.yes("Are there commands to run on it first?", false, help_of("commands")))
    ask_about_commands(ask, config);
  config.tpu_vm =
      ask.list("Which virtual machines, separated by commas, if not all?", help_of("tpu_vm"));
  config.tpu_env = ask.list("Which environment variables to set there, separated by commas?",
                            help_of("tpu_env"));
}

}  // namespace accelerate::cli
