#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "cli/reference/command_text.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

std::string completion_for(const std::string& shell, const CommandText& program) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  if (shell == "fish") return fish_completion(program);
  throw ConfigError("there is no completion for '" + shell + "'; there is for bash, zsh, fish." +
                    did_you_mean(shell, {"bash", "zsh", "fish"}));
}

const CommandText& command_called(const CommandText& program,
                                  const std::vector<std::string>& names) {
  const CommandText* command = &program;
  for (const std::string& name : names) {
    const auto inner = std::ranges::find(command->commands, name, &CommandText::name);
    if (inner == command->commands.end())
      throw ConfigError("there is no command '" + join(names, " ") + "'");
    command = &*inner;
  }
  return *command;
}

void write_pages(const CommandText& command, const fs::path& folder) {
  write_file_atomically(real_file_system(), folder / (name_of_man_page(command) + ".1"),
                        man_page(command), {.durable = false});
  for (const CommandText& inner : command.commands) write_pages(inner, folder);
}

struct ManOptions {
  std::vector<std::string> command;
  std::string folder;
};

void run_man(const CLI::App& app, const ManOptions& options) {
  const CommandText program = command_text(app);
  if (!options.folder.empty() && !options.command.empty())
    throw ConfigError("--output_dir writes the pages of all commands: leave out '" +
                      join(options.command, " ") + "'");
  if (options.folder.empty()) {
    std::cout << man_page(command_called(program, options.command));
    return;
  }
  real_file_system().create_directories(options.folder);
  write_pages(program, options.folder);
}

}  // namespace

void setup_reference(CLI::App& app, int&) {
  auto* completion = app.add_subcommand("completion", "Print what completes commands in a shell");
  auto shell = std::make_shared<std::string>();
  completion->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->type_name("bash|zsh|fish");
  completion->footer(
      "  source <(accelerate completion bash)     in ~/.bashrc\n"
      "  source <(accelerate completion zsh)      in ~/.zshrc, behind compinit\n"
      "  accelerate completion fish | source      in ~/.config/fish/config.fish\n"
      "An installed package has all three where these shells look for them.");
  completion->callback([&app, shell] { std::cout << completion_for(*shell, command_text(app)); });

  auto* man = app.add_subcommand("man", "Print the manual page of a command");
  auto options = std::make_shared<ManOptions>();
  man->add_option("COMMAND", options->command, "Its words, as in: man config default")
      ->type_name("");
  man->add_option("--output_dir,--output-dir", options->folder,
                  "Write the pages of all commands into this folder")
      ->type_name("DIR");
  man->footer("  accelerate man launch | man -l -");
  man->callback([&app, options] { run_man(app, *options); });
}

}  // namespace accelerate::cli
