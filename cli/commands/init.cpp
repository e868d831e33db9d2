#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <memory>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/program.h"
#include "cli/commands/shared_options.h"
#include "cli/reference/command_text.h"

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
  config.mixed_precision.reset();  // Nobody asked, so the program may say.
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

struct Template {
  const char* name;
  const char* library;
  const char* test;     // Arguments of a short training.
  const char* too_low;  // What a training prints that has not learned.
  const char* what;
  const char* more;
};

constexpr Template kTemplates[] = {
    {.name = "trainer",
     .library = "Accelerate::transformers",
     .test = "--data ${CMAKE_CURRENT_SOURCE_DIR}/flowers.csv --num_train_epochs 5 --output_dir "
             "test_run --save_strategy no --load_best_model_at_end false",
     .too_low = "eval_accuracy *= *0\\\\.[0-7]",
     .what = "reads a CSV file, and trains a classifier of its rows with the Trainer",
     .more =
         "`build/train --data my.csv --label COLUMN` trains on a file of yours: `COLUMN` holds "
         "the answer, all columns of numbers are what it is told by.\n`build/train --help` lists "
         "every argument. `run/model.safetensors` holds the weights; Python's `safetensors` "
         "reads them."},
    {.name = "loop",
     .library = "Accelerate::accelerate",
     .test = "--epochs 30 --output test_run",
     .too_low = "test accuracy: 0\\\\.[0-8]",
     .what = "data, model and the loop",
     .more =
         "`build/train --resume` continues from the checkpoint, on any number of processes that "
         "divides the batch of 64. `run/model/model.safetensors` holds the weights;\nPython's "
         "`safetensors` reads them."},
    {.name = "cv",
     .library = "Accelerate::accelerate",
     .test = "--epochs 5 --output test_run",
     .too_low = "epoch 5, test accuracy: 0\\\\.[0-7]",
     .what = "images, a convolutional network and the loop",
     .more = "`build/train --data DIR` trains on images in the files of MNIST and its successors "
             "(`train-images-idx3-ubyte`, …). `run/model/model.safetensors` holds the weights."},
};

const Template& template_called(const std::string& name) {
  const auto found = std::ranges::find(kTemplates, name, &Template::name);
  if (found != std::end(kTemplates)) return *found;
  throw ConfigError("--template is '" + name + "'; allowed is one of " +
                    join(template_names(), ", ") + "." + did_you_mean(name, template_names()));
}

// Returns the path in the project of a file that belongs to the template; empty if it does not.
std::string path_in_project(std::string_view path, const Template& chosen) {
  const auto slash = path.find('/');
  if (slash == std::string_view::npos) return std::string(path);
  return path.substr(0, slash) == chosen.name ? std::string(path.substr(slash + 1)) : "";
}

void write_project(const fs::path& folder, const Template& chosen, int num_gpus) {
  const std::pair<const char*, std::string> places[] = {
      {"@NAME@", folder.filename()}, {"@VERSION@", minor_version()}, {"@LIBRARY@", chosen.library},
      {"@TEST@", chosen.test},       {"@TOO_LOW@", chosen.too_low},  {"@WHAT@", chosen.what},
      {"@MORE@", chosen.more}};
  for (const auto& [path, content] : project_files()) {
    const auto name = path_in_project(path, chosen);
    if (name.empty()) continue;
    std::string text(content);
    for (const auto& [place, by] : places) replace_all(text, place, by);
    write_file_atomically(real_file_system(), folder / name, text);
  }
  save_cluster_config(config_for(num_gpus), folder / "accelerate.yaml");
}

void remove_project(const fs::path& folder, const Template& chosen) {
  std::error_code ignored;
  for (const auto& [path, content] : project_files())
    if (const auto name = path_in_project(path, chosen); !name.empty())
      fs::remove(folder / name, ignored);
}

// Where this command lies, and the package that CMake has to find.
struct Installation {
  fs::path program;
  fs::path prefix;
  bool has_package = false;  // False in a build folder.
  bool is_in_path = false;   // Under its name alone.
  bool is_found = false;     // By CMake, without being told the prefix.
};

Installation own_installation() {
  std::error_code ignored;
  Installation own;
  own.program = own_program();
  own.prefix = own.program.parent_path().parent_path();
  for (const char* libraries : {"lib", "lib64", "share"})
    own.has_package |= fs::exists(own.prefix / libraries / "cmake/Accelerate", ignored);
  for (const auto& entry : fs::directory_iterator(own.prefix / "lib", ignored))  // lib/x86_64-…
    own.has_package |= fs::exists(entry.path() / "cmake/Accelerate", ignored);
  const fs::path in_path = find_in_path(own_command());
  own.is_found = fs::equivalent(in_path, own.program, ignored);
  // The name that a wheel puts into PATH is a script that starts the program.
  const auto environment = fs::weakly_canonical(in_path, ignored).parent_path().parent_path();
  own.is_in_path = own.is_found || (own_command() == "accelerate-cpp" && !in_path.empty() &&
                                    own.program.string().starts_with(environment.string() + "/"));
  return own;
}

bool is_missing(const char* name) {
  return find_in_path(name).empty();
}

// Says what the next commands need and PATH does not have.
std::string missing_tools() {
  std::string text;
  if (!env("CXX") && is_missing("c++") && is_missing("g++") && is_missing("clang++"))
    text += "There is no C++ compiler in PATH: install g++ 12 or newer.\n";
  if (is_missing("cmake"))
    text +=
        "There is no cmake in PATH: install CMake 3.25 or newer; `pip install cmake ninja` does.\n";
  if (is_missing("make") && is_missing("ninja"))
    text += "There is neither make nor ninja in PATH: `pip install ninja` installs one.\n";
  return text;
}

std::string next_commands(const fs::path& folder) {
  const Installation own = own_installation();
  const std::string prefix = own.has_package ? own.prefix.string() : "PREFIX";
  const std::string place =
      own.has_package && own.is_found ? "" : " -DCMAKE_PREFIX_PATH=" + shell_word(prefix);
  const std::string program = own.is_in_path ? own_command() : shell_word(own.program.string());
  // CMake takes make unless told otherwise; pip has ninja alone.
  const std::string generator = is_missing("make") ? " -G Ninja" : "";
  std::string text = "  cd " + shell_word(folder.string()) + "\n  cmake" + generator + " -B build" +
                     place + " && cmake --build build\n  " + program +
                     " launch --config_file accelerate.yaml build/train\n";
  if (!own.has_package)
    text +=
        "This command lies in no installed package: `cmake --install BUILD --prefix PREFIX` "
        "makes one.\n";
  return text + missing_tools();
}

}  // namespace

std::vector<std::string> template_names() {
  std::vector<std::string> names;
  for (const Template& one : kTemplates) names.emplace_back(one.name);
  return names;
}

int run_init(const InitOptions& options, std::ostream& out) {
  const Template& chosen = template_called(options.template_name);
  if (options.folder.empty()) check_name("");
  fs::path folder = fs::absolute(options.folder).lexically_normal();  // "." gets a name, too.
  if (!folder.has_filename()) folder = folder.parent_path();
  check_name(folder.filename().string());
  check_folder(folder);
  real_file_system().create_directories(folder);
  try {
    write_project(folder, chosen, options.num_gpus);
  } catch (const std::exception&) {  // Half a project would block the next try.
    remove_project(folder, chosen);
    throw;
  }
  out << "A project in " << folder.string() << ". Next:\n" << next_commands(folder);
  return 0;
}

void setup_init(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("init", "Make a new project that builds and trains");
  auto options = std::make_shared<InitOptions>();
  command->add_option("NAME", options->folder, "The project's folder, by whose name it is called")
      ->required()
      ->type_name("");
  command
      ->add_option("--template", options->template_name,
                   "What it trains: trainer (a CSV file, with the Trainer), loop (a loop of its "
                   "own), cv (images) [loop]")
      ->type_name("NAME");
  command->footer(
      "It has a training, its CMakeLists.txt, a configuration, a test, a README\n"
      "and a .gitignore.");
  command->callback([options, &exit_code] {
    options->num_gpus = gpu_count();
    exit_code = run_init(*options, std::cout);
  });
}

}  // namespace accelerate::cli
