#include "accelerate/launch/program.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>

#include "accelerate/base/environment.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

bool executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
    if (names.size() == 1000) break;  // a hint is not worth a long look
  }
  return names;
}

[[noreturn]] void refuse_folder(const std::string& name) {
  throw ProgramError("'" + name + "' is a folder; name the program in it.",
                     ProgramError::kNotExecutable);
}

[[noreturn]] void refuse_missing(const std::string& name) {
  const fs::path path(name);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw ProgramError(
        "there is no program '" + name + "': the folder '" + folder.string() + "' does not exist.",
        ProgramError::kNotFound);
  }
  if (fs::is_symlink(path, ignored)) {
    throw ProgramError("'" + name + "' is a link to '" + fs::read_symlink(path, ignored).string() +
                           "', which does not exist.",
                       ProgramError::kNotFound);
  }
  throw ProgramError("there is no program '" + name + "'." +
                         did_you_mean(path.filename().string(), names_in(folder)),
                     ProgramError::kNotFound);
}

[[noreturn]] void refuse_unknown_command(const std::string& name) {
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) refuse_folder(name);
  if (fs::exists(name, ignored)) {
    throw ProgramError("'" + name +
                           "' is not in PATH, but there is a file of that name here: write './" +
                           name + "'.",
                       ProgramError::kNotFound);
  }
  throw ProgramError("there is no program '" + name +
                         "' in PATH and no such file here. Is it built, and spelled like this?" +
                         did_you_mean(name, names_in(".")),
                     ProgramError::kNotFound);
}

void check_path(const std::string& name) {
  std::error_code ignored;
  if (!fs::exists(name, ignored)) refuse_missing(name);
  if (fs::is_directory(name, ignored)) refuse_folder(name);
  if (!executable_file(name)) {
    throw ProgramError(
        "'" + name + "' is not executable. If it is a program, `chmod +x " + name + "` cures that.",
        ProgramError::kNotExecutable);
  }
}

bool is_native_executable(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::array<char, 4> magic{};
  in.read(magic.data(), magic.size());
  return std::string_view(magic.data(), magic.size()) ==
         "\x7f"
         "ELF";
}

std::string python() {
  for (const char* name : {"python3", "python"}) {
    if (const auto found = find_in_path(name); !found.empty()) return found;
  }
  throw ProgramError(
      "a Python program needs python3, and there is none in PATH. Install it, activate the virtual "
      "environment that has it, or pass --no_python to execute the file itself.",
      ProgramError::kNotFound);
}

void check_script(const std::string& name) {
  std::error_code ignored;
  if (!fs::exists(name, ignored)) refuse_missing(name);
  if (fs::is_directory(name, ignored)) refuse_folder(name);
  if (access(name.c_str(), R_OK) != 0) {
    throw ProgramError("'" + name + "' cannot be read. `chmod +r " + name + "` cures that.",
                       ProgramError::kNotExecutable);
  }
}

}  // namespace

ProgramError::ProgramError(const std::string& message, int exit_code)
    : LaunchError(message, exit_code == kNotFound ? error_name::kProgramNotFound
                                                  : error_name::kProgramNotExecutable),
      exit_code_(exit_code) {}

fs::path find_in_path(const std::string& name) {
  for (const auto& folder : split(env("PATH").value_or("/usr/local/bin:/usr/bin:/bin"), ':')) {
    fs::path path = fs::path(folder.empty() ? "." : folder) / name;
    if (executable_file(path)) return path;
  }
  return {};
}

fs::path own_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

bool may_run_python(const std::vector<std::string>& command) {
  const auto names_python = [](const std::string& word) {
    return word.ends_with(".py") || word.find("python") != std::string::npos;
  };
  const fs::path file(command.front());
  const std::string name = file.filename();
  if (names_python(name) || !is_native_executable(file)) return true;
  return std::any_of(command.begin() + 1, command.end(), names_python);
}

std::vector<std::string> resolve_program(const std::vector<std::string>& words,
                                         const ProgramOptions& options) {
  if (options.module && options.no_python) {
    throw ConfigError(
        "--module runs a Python module and --no_python runs no Python: use one of them.");
  }
  if (words.empty() || words[0].empty()) {
    throw ConfigError(
        "there is no program to launch: write `accelerate launch [flags] program [its "
        "arguments]`.");
  }
  const std::string& name = words[0];
  std::vector<std::string> command;
  if (options.module) {
    command = {python(), "-u", "-m", name};
  } else if (name.ends_with(".py") && !options.no_python) {
    check_script(name);
    command = {python(), "-u", name};
  } else if (name.find('/') != std::string::npos) {
    check_path(name);
    command = {name};
  } else {
    const auto found = find_in_path(name);
    if (found.empty()) refuse_unknown_command(name);
    command = {found};
  }
  command.insert(command.end(), words.begin() + 1, words.end());
  return command;
}

}  // namespace accelerate
