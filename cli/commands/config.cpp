#include "cli/commands/commands.h"

#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/settings.h"
#include "cli/commands/shared_options.h"
#include "cli/questions/form.h"
#include "cli/questions/lines.h"

namespace accelerate::cli {
namespace {

constexpr const char* kConfigFooter = R"(
Arrows or numbers choose, Enter takes, ? explains, < goes back, Ctrl-C leaves without a file.
Where standard input or output is not a terminal, questions are lines, and so are answers.)";

constexpr const char* kDefaultFile =
    " Default: accelerate/default_config.yaml below $HF_HOME, $XDG_CACHE_HOME/huggingface or "
    "~/.cache/huggingface.";

// `asked`: the options of `config` itself, whose --config_file counts for its sub-commands too.
void setup_default(CLI::App* config, const std::shared_ptr<ConfigOptions>& asked, int& exit_code) {
  auto options = std::make_shared<ConfigDefaultOptions>();
  CLI::App* command =
      config->add_subcommand("default", "Write a configuration file for this machine.");
  add_config_file(command, options, std::string("The file to write.") + kDefaultFile);
  add_mixed_precision(command, options, "Element type of autocast regions.");
  command->callback([options, asked, &exit_code] {
    if (!options->config_file) options->config_file = asked->config_file;
    options->num_gpus = gpu_count();
    exit_code = run_config_default(*options, std::cout);
  });
}

void setup_update(CLI::App* config, const std::shared_ptr<ConfigOptions>& asked, int& exit_code) {
  auto options = std::make_shared<ConfigUpdateOptions>();
  CLI::App* command =
      config->add_subcommand("update", "Rewrite a configuration file in today's form.");
  add_config_file(command, options, std::string("The file to rewrite.") + kDefaultFile);
  command->callback([options, asked, &exit_code] {
    if (!options->config_file) options->config_file = asked->config_file;
    exit_code = run_config_update(*options, std::cout);
  });
}

// --- questions

constexpr int kOfSignals = 128;

// Throws now, before anybody has answered thirty questions.
void check_is_writable(const std::filesystem::path& file) {
  std::error_code error;
  auto folder = config_target(file).parent_path();
  const bool is_other =
      std::filesystem::exists(file, error) && !std::filesystem::is_regular_file(file, error);
  if (is_other)
    throw ConfigError("'" + file.string() +
                      "' is not a regular file: name another by --config_file");
  if (folder.empty())
    throw ConfigError("the working directory is not there any more: change into another");
  while (!folder.empty() && folder != folder.root_path() && !std::filesystem::exists(folder, error))
    folder = folder.parent_path();
  if (!std::filesystem::is_directory(folder, error) || ::access(folder.c_str(), W_OK | X_OK) != 0)
    throw ConfigError("the configuration file '" + file.string() + "' cannot be written, for " +
                      folder.string() + " cannot be written into: name another by --config_file");
}

// Returns the content of a file, without characters that a terminal would obey.
std::string shown_text(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::string_view rest = text;
    const auto character = take_code_point(text);
    const bool is_text = character && (*character == '\n' || display_width(*character) > 0);
    shown += is_text ? rest.substr(0, rest.size() - text.size()) : "?";
  }
  return shown;
}

// Shows the present file, if there is one, and asks whether it may be replaced.
bool may_replace(const std::filesystem::path& file, Lines& lines) {
  if (real_file_system().status(file).kind == FileKind::none) return true;
  try {
    lines.tell({"there is a configuration at " + file.string() + ":\n\n" +
                shown_text(read_file(real_file_system(), file, DocumentLimits{}.max_bytes))});
  } catch (const FileError&) {
    throw_with_context<ConfigError>("the configuration file '" + file.string() +
                                    "' is there and cannot be shown: remove it, or name another "
                                    "by --config_file");
  }
  const Question question{.kind = Question::Kind::yes_no,
                          .text = "Replace it? The questions come next.",
                          .help = "It is replaced when the last question is answered.",
                          .fallback = "no"};
  std::optional<std::string> answer;
  while (!answer) answer = lines.ask(question, {});
  return *answer == "yes";
}

// Returns the command that uses the file. Whether this version's launcher takes the file decides
// which command it is.
std::string next_step(const ConfigOptions& options, const std::filesystem::path& file,
                      const ConfigDraft& draft) {
  const bool is_for_python = std::ranges::any_of(draft.notes, &Note::is_for_python);
  const std::string command =
      "accelerate launch " +
      (options.config_file ? "--config_file " + shell_word(file.string()) + " " : "") +
      (is_for_python ? "PROGRAM.py\n" : "PROGRAM\n");
  try {
    (void)merge_settings({.flags = {}, .config = load_cluster_config(file), .config_file = file},
                         Machine{});
    return "Next: " + command;
  } catch (const ConfigError&) {
    return "Next, with Python's Accelerate: " + command;
  }
}

ConfigDraft ask_on_screen() {
  Form form(STDIN_FILENO, STDOUT_FILENO);
  return converse(form);
}

// Whether a file or a link is there. Throws FileError when that cannot be seen, ConfigError for what
// no configuration can replace.
bool is_taken(const std::filesystem::path& file) {
  std::error_code error;
  const auto found = std::filesystem::symlink_status(file, error);
  switch (found.type()) {
    case std::filesystem::file_type::not_found:
      return false;
    case std::filesystem::file_type::none:
      throw FileError("look at", file, error.value());
    case std::filesystem::file_type::regular:
    case std::filesystem::file_type::symlink:
      return true;
    case std::filesystem::file_type::directory:
      throw ConfigError("'" + file.string() + "' is a folder; name a file in it: --config_file " +
                        (file / "default_config.yaml").string());
    default:
      throw ConfigError("'" + file.string() +
                        "' is a device or a pipe, in which no configuration is kept; name a file "
                        "with --config_file");
  }
}

}  // namespace

ClusterConfig config_for_this_machine(const ConfigDefaultOptions& options) {
  ClusterConfig config;
  config.mixed_precision = options.mixed_precision;
  config.use_cpu = options.num_gpus == 0;
  config.num_processes = std::max(options.num_gpus, 1);
  config.distributed_type = options.num_gpus > 1 ? DistributedType::MULTI_GPU : DistributedType::NO;
  return config;
}

int run_config_default(const ConfigDefaultOptions& options, std::ostream& out) {
  const auto file = options.config_file.value_or(default_config_file());
  if (is_taken(file)) {
    out << "There is already a configuration at " << file.string()
        << ", which is left as it is. Edit or remove it, or name another file with "
           "--config_file.\n";
    return 0;
  }
  save_cluster_config(config_for_this_machine(options), file);
  out << "accelerate configuration saved at " << file.string() << "\n";
  return 0;
}

int run_config_update(const ConfigUpdateOptions& options, std::ostream& out) {
  const auto file = options.config_file.value_or(default_config_file());
  std::vector<RetiredKey> retired;
  save_cluster_config(load_cluster_config(file, &retired), file);
  for (const RetiredKey& key : retired) out << "Removed: " << describe(key) << ".\n";
  out << "Successfully updated the configuration file at " << file.string() << ".\n";
  return 0;
}

int run_config(const ConfigOptions& options) {
  const auto file = options.config_file.value_or(default_config_file());
  check_is_writable(file);
  Lines lines(std::cin, std::cout);
  if (!may_replace(file, lines)) {
    std::cout << "The configuration stays as it is.\n";
    return 0;
  }
  const bool on_screen = ::isatty(STDIN_FILENO) == 1 && is_redrawable(STDOUT_FILENO);
  try {
    const ConfigDraft draft = on_screen ? ask_on_screen() : converse(lines);
    const std::string& text = file.extension() == ".json" ? draft.json : draft.yaml;
    std::cout << "\n" << text << "\n" << std::flush;  // Even if it cannot be written after all.
    save_config_text(text, file);
    std::cout << "accelerate configuration saved at " << file.string() << "\n";
    if (on_screen)  // In lines they have been shown already.
      for (const Note& note : draft.notes) lines.tell(note);
    std::cout << next_step(options, file, draft);
    return 0;
  } catch (const Left& left) {
    std::cerr << "accelerate config: left; nothing was written\n";
    return kOfSignals + left.signal;
  }
}

void setup_config(CLI::App& app, int& exit_code) {
  CLI::App* config =
      app.add_subcommand("config", "Ask questions, and write a configuration file of the answers.");
  auto options = std::make_shared<ConfigOptions>();
  add_config_file(config, options, std::string("The file to write.") + kDefaultFile);
  config->require_subcommand(0, 1);
  config->callback([config, options, &exit_code] {
    if (config->get_subcommands().empty()) exit_code = run_config(*options);
  });
  setup_default(config, options, exit_code);
  setup_update(config, options, exit_code);
  config->footer(kConfigFooter);  // Last, because sub-commands take over what is already set.
}

}  // namespace accelerate::cli
