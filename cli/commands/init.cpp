#include "cli/commands/init.h"

#include <algorithm>
#include <iostream>
#include <memory>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/machine/gpus.h"
#include "cli/commands/config.h"
#include "cli/commands/project_files.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

void check_name(const std::string& name) {
  const auto is_letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  };
  if (!name.empty() && is_letter(static_cast<unsigned char>(name[0])) &&
      std::ranges::all_of(name, is_plain))
    return;
  throw ConfigError("'" + name +
                    "' is not a valid project name: it begins with a letter, and has letters, "
                    "digits, '_' and '-'");
}

void check_folder(const fs::path& folder) {
  auto& files = real_file_system();
  const FileKind kind = files.status(folder).kind;
  if (kind == FileKind::none) return;
  if (kind != FileKind::directory)
    throw ConfigError("'" + folder.string() + "' exists and is not a folder: choose another name");
  auto names = files.list(folder);
  std::erase(names, ".git");
  if (!names.empty())
    throw ConfigError("'" + folder.string() +
                      "' holds something already: choose another name, or an empty folder");
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), by);
}

// Without a GPU asks for two processes, so that there is something to see.
ClusterConfig config_for(int num_gpus) {
  ConfigDefaultOptions options;
  options.num_gpus = num_gpus;
  ClusterConfig config = config_for_this_machine(options);
  if (num_gpus > 0) return config;
  config.distributed_type = DistributedType::MULTI_CPU;
  config.num_processes = 2;
  return config;
}

// Returns "0.1" for "0.1.0": find_package then takes any 0.1.x.
std::string minor_version() {
  const std::string version = ACCELERATE_VERSION;
  return version.substr(0, version.rfind('.'));
}

void write_project(const fs::path& folder, const std::string& name, int num_gpus) {
  for (const auto& [path, content] : project_files()) {
    std::string text(content);
    replace_all(text, "@NAME@", name);
    replace_all(text, "@VERSION@", minor_version());
    write_file_atomically(real_file_system(), folder / path, text);
  }
  save_cluster_config(config_for(num_gpus), folder / "accelerate.yaml");
}

}  // namespace

int run_init(const InitOptions& options, std::ostream& out) {
  if (options.folder.empty()) check_name("");
  fs::path folder = fs::absolute(options.folder).lexically_normal();  // "." gets a name, too.
  if (!folder.has_filename()) folder = folder.parent_path();
  const std::string name = folder.filename().string();
  check_name(name);
  check_folder(folder);
  real_file_system().create_directories(folder);
  try {
    write_project(folder, name, options.num_gpus);
  } catch (const std::exception&) {  // Half a project would block the next try.
    std::error_code ignored;
    for (const auto& [path, content] : project_files()) fs::remove(folder / path, ignored);
    throw;
  }
  out << "A project in " << folder.string() << ". Next:\n  cd " << shell_word(folder.string())
      << "\n  cmake -B build -G Ninja && cmake --build build\n"
         "  accelerate launch --config_file accelerate.yaml build/train\n";
  return 0;
}

void setup_init(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("init", "Make a new project that builds and trains");
  auto options = std::make_shared<InitOptions>();
  command->add_option("NAME", options->folder, "The project's folder, by whose name it is called")
      ->required()
      ->type_name("");
  command->footer(
      "It has a training loop, its CMakeLists.txt, a configuration, a test, a README\n"
      "and a .gitignore.");
  command->callback([options, &exit_code] {
    options->num_gpus = gpu_count();
    exit_code = run_init(*options, std::cout);
  });
}

}  // namespace accelerate::cli
