// The `accelerate` command. This file alone prints errors and turns them into exit codes:
//   0    done
//   1    failed
//   2    a flag, file or variable has a value that is not allowed
//   126  the program cannot be executed
//   127  there is no such program
//   else the exit code of the first rank that failed
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/launch/program.h"
#include "cli/commands/commands.h"
#include "cli/reference/command_text.h"
#include "cli/terminal/safe_stream.h"
#include "cli/torch_program/libtorch_folder.h"

namespace accelerate::cli {
namespace {

constexpr int kNotAllowed = 2;

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const auto* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// `before`: the words before `word`, such as "hub ".
void check_command(const CLI::App& app, const std::string& word, const std::string& before) {
  const auto commands = command_names(app);
  if (commands.empty() || word.starts_with('-') ||
      std::ranges::find(commands, word) != commands.end())
    return;
  throw ConfigError("there is no command '" + before + word + "'." + did_you_mean(word, commands) +
                    " `" + own_command() + " " + before + "--help` lists them.");
}

// Loads no LibTorch. Programs that were installed from source know theirs; a package looks for one.
std::string version_text() {
  const std::string built_with = ACCELERATE_LIBTORCH;
  const std::string commit = source_commit();
  std::string text = std::string("accelerate ") + ACCELERATE_VERSION +
                     (commit.empty() ? "" : " (commit " + commit + ")") + "\nbuilt " +
                     (built_with.empty() ? "without LibTorch" : "with LibTorch " + built_with);
  const auto place = libtorch_place();
  if (place.empty()) return text;
  if (!has_libtorch(place)) return text + "\nthere is no LibTorch in " + place.string();
  return text + "\nfound LibTorch " + libtorch_version(place) + " in " +
         std::filesystem::weakly_canonical(place).string();
}

void setup_all(CLI::App& app, int& exit_code) {
  app.set_version_flag("--version", version_text,
                       "Print the version, its commit and LibTorch's version, and exit");
  app.set_help_flag("-h,--help", "Print this page and exit");
  use_help_pages(app);
  app.require_subcommand(0, 1);  // `man config` is about one command; it is not two commands.
  const auto group = [&](const char* heading) {
    for (CLI::App* command : app.get_subcommands({}))
      if (command->get_group() == "Subcommands") command->group(heading);
  };
  setup_init(app, exit_code);
  setup_config(app, exit_code);
  setup_test(app, exit_code);
  setup_env(app, exit_code);
  setup_setup(app, exit_code);
  group("Set up");
  setup_launch(app);
  setup_watch(app, exit_code);
  setup_report(app, exit_code);
  group("Train");
  setup_estimate_memory(app, exit_code);
  setup_merge_weights(app, exit_code);
  setup_convert(app, exit_code);
  setup_convert_state(app, exit_code);
  setup_hub(app, exit_code);
  group("Models and weights");
  setup_to_fsdp2(app, exit_code);
  setup_tpu_config(app);
  setup_reference(app, exit_code);
  group("More");
  app.footer("`" + own_command() + " COMMAND --help` tells more about a command.");
}

// Returns the words behind the program's name. If the program is called by an original's name, such
// as `accelerate-launch`, the command comes first.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  const std::string name = argc > 0 ? std::filesystem::path(argv[0]).filename().string() : "";
  for (const std::string command : {"config", "estimate-memory", "launch", "merge-weights"})
    if (name == "accelerate-" + command) words.insert(words.begin(), command);
  return words;
}

// Returns the command that the words chose.
const CLI::App& innermost(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : innermost(*chosen.back());
}

// CLI11 makes no suggestions, so this does.
[[noreturn]] void refuse_unknown_words(const CLI::App& app) {
  const CLI::App& command = innermost(app);
  const std::vector<std::string> words = app.remaining(true);
  const std::string word = words.empty() ? "" : words.front();
  auto known = command_names(command);
  for (const CLI::Option* option : command.get_options())
    if (!option->get_lnames().empty()) known.push_back("--" + option->get_lnames().front());
  throw ConfigError("`" + full_name(command) + "` does not know '" + word + "'." +
                    did_you_mean(word, known) + " It takes: " + join(known, ", ") + ".");
}

int run(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "launch") {
    return run_launch({words.begin() + 1, words.end()}, std::cout, std::cerr);
  }
  CLI::App app(
      "Hugging Face Accelerate as native C++: one training loop on any number of processes.",
      own_command());
  int exit_code = 0;
  setup_all(app, exit_code);
  if (words.empty()) {
    std::cout << app.help();
    return 1;
  }
  check_command(app, words[0], "");
  if (words[0] == "hub" && words.size() > 1)
    check_command(*app.get_subcommand("hub"), words[1], "hub ");
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));  // In CLI11's order.
  } catch (const CLI::ExtrasError&) {
    refuse_unknown_words(app);
  } catch (const CLI::Success& page) {  // Help or the version was asked for.
    return app.exit(page);
  } catch (const CLI::ParseError& error) {
    throw ConfigError(std::string(error.what()) + ". `" + full_name(innermost(app)) +
                      " --help` tells what it takes");
  }
  if (app.get_subcommands().empty()) {  // `accelerate --`
    std::cout << app.help();
    return 1;
  }
  return exit_code;
}

// Whether another program reads the path that `hub download` prints. The path must then be exact,
// whatever characters the file's name has.
bool prints_exact_path(const std::vector<std::string>& words) {
  return words.size() > 1 && words[0] == "hub" && words[1] == "download" &&
         isatty(STDOUT_FILENO) == 0;
}

int fail(const std::exception& error, int exit_code) {
  // A message quotes names and values of files, which may hold what a terminal obeys.
  std::cerr << "accelerate: " << detail::untrusted_text(describe(error), 64 << 10) << "\n";
  return exit_code;
}

}  // namespace
}  // namespace accelerate::cli

int main(int argc, char** argv) {
  using namespace accelerate;
  cli::secure_standard_descriptors();
  const std::vector<std::string> words = cli::words_of(argc, argv);
  const cli::SafeStream safe_errors(std::cerr);
  std::optional<cli::SafeStream> safe_output;
  if (!cli::prints_exact_path(words)) safe_output.emplace(std::cout);
  try {
    const int exit_code = cli::run(words);
    if (std::cout.flush()) return exit_code;
    throw FileError("write", "standard output", errno);
  } catch (const ProgramError& error) {
    return cli::fail(error, error.exit_code());
  } catch (const ConfigError& error) {
    return cli::fail(error, cli::kNotAllowed);
  } catch (const std::exception& error) {
    return cli::fail(error, 1);
  }
}
