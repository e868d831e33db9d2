#include "cli/commands/commands.h"

#include <gnu/libc-version.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/machine/hardware.h"
#include "accelerate/base/machine/topology.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/program.h"
#include "cli/commands/shared_options.h"
#include "cli/reference/command_text.h"
#include "cli/torch_program/libtorch_folder.h"
#include "cli/torch_program/torch_program.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

std::string platform() {
  utsname name{};
  uname(&name);
  return std::string(name.sysname) + "-" + name.release + "-" + name.machine + "-glibc" +
         gnu_get_libc_version();
}

std::string or_not_found(const std::string& text) {
  return text.empty() ? "Not found" : text;
}

// Returns the version that a virtual environment noted down when it was made. To ask Python would
// take longer than everything else here.
std::string noted_version(const fs::path& python) {
  std::ifstream notes(python.parent_path().parent_path() / "pyvenv.cfg");
  for (std::string line; std::getline(notes, line);) {
    const auto equals = line.find('=');
    if (equals == std::string::npos) continue;
    const auto key = trim(std::string_view(line).substr(0, equals));
    if (key == "version" || key == "version_info") {
      return std::string(trim(std::string_view(line).substr(equals + 1)));
    }
  }
  return {};
}

std::string python() {
  const fs::path path = find_in_path("python3");
  if (path.empty()) return "Not found";
  std::error_code ignored;
  std::string version = noted_version(path);
  if (version.empty()) {
    const std::string name = fs::weakly_canonical(path, ignored).filename();
    if (name.starts_with("python3.")) version = name.substr(6);
  }
  return version.empty() ? path.string() : version + " (" + path.string() + ")";
}

std::string gpu_names(const std::vector<Gpu>& gpus) {
  std::vector<std::string> names;
  for (const auto& gpu : gpus) names.push_back(gpu.name);
  return join(names, ", ");
}

// Returns the CPUs that ranks divide among them, such as " (CPUs 0-7 on 2 NUMA nodes)".
std::string usable_cpus() {
  const auto allowed = allowed_cpus();
  if (!allowed) return {};
  std::set<int> nodes;
  for (const auto& core : cpu_cores({}, allowed)) nodes.insert(core.node);
  return " (CPUs " + cpu_list_text(*allowed) + " on " + std::to_string(nodes.size()) +
         (nodes.size() == 1 ? " NUMA node)" : " NUMA nodes)");
}

// Returns the path of the program in PATH, else of the running one.
std::string own_place() {
  const auto found = find_in_path(own_command());
  return found.empty() ? or_not_found(own_program()) : found.string();
}

// Says how a launched group will communicate, as far as this machine alone decides it.
std::string communication() {
  const std::string wish = env("ACCELERATE_COMM").value_or("");
  if (wish == "gloo") return "Gloo (ACCELERATE_COMM)";
  if (!wish.empty() && wish != "shared_memory") {
    return "'" + wish +
           "', which is not known (ACCELERATE_COMM; allowed are gloo and shared_memory)";
  }
  const Descriptor memory(memfd_create("accelerate-env", MFD_CLOEXEC));
  if (!memory.valid()) {
    return std::string("Gloo (no memory files: ") + std::strerror(errno) + ")";
  }
  return std::string("shared memory on a host, Gloo between hosts") +
         (wish.empty() ? "" : " (ACCELERATE_COMM)");
}

// Says how large /dev/shm is: in a container ranks may find too little there.
std::string shared_memory() {
  struct statvfs room{};
  if (::statvfs("/dev/shm", &room) != 0) return "no /dev/shm";
  const auto bytes = [&](auto blocks) {
    return format_bytes(static_cast<double>(blocks) * static_cast<double>(room.f_frsize));
  };
  return bytes(room.f_bavail) + " free of " + bytes(room.f_blocks);
}

std::string libtorch_of_build() {
  const std::string version = ACCELERATE_LIBTORCH;
  return version.empty() ? "none (built without the library)" : version + " (LibTorch)";
}

// LibTorch describes itself, if this build has it.
std::string libtorch(const EnvOptions& options) {
  if (options.without_libtorch || !has_torch_program()) return "";
  try {
    return output_of_torch_program({"describe"});
  } catch (const ConfigError& error) {
    return "- LibTorch cannot be loaded: " + std::string(error.what()) + "\n";
  }
}

std::string configuration(const EnvOptions& options) {
  const bool named = options.config_file.has_value();
  const fs::path file = options.config_file.value_or(default_config_file());
  std::string text = named ? "- `Accelerate` config passed:\n" : "- `Accelerate` default config:\n";
  if (!named && !fs::exists(file)) return text + "\tNot found\n";
  const std::string yaml = to_yaml(load_cluster_config(file));
  for (const auto& line : split(trim(yaml), '\n')) {
    const bool nested = line.starts_with(' ') || line.starts_with("- ");
    text += (nested ? "\t  " : "\t- ") + line + "\n";
  }
  return text;
}

}  // namespace

void setup_env(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("env", "Print what a bug report needs to know");
  auto options = std::make_shared<EnvOptions>();
  add_config_file(command, options, "Configuration file to print; the default one otherwise");
  command->add_flag("--without_libtorch,--without-libtorch", options->without_libtorch,
                    "Do not load LibTorch, which takes most of the time");
  command->callback([options, &exit_code] { exit_code = run_env(*options, std::cout); });
}

int run_env(const EnvOptions& options, std::ostream& out) {
  const std::string config = configuration(options);  // First, because it may throw.
  const auto gpus = visible_gpus();
  const std::string commit = source_commit().empty() ? "" : ", commit " + source_commit();
  out << "\nCopy the lines below into your report.\n\n"
      << "- `Accelerate` version: " << ACCELERATE_VERSION << " (accelerate.cpp" << commit << ")\n"
      << "- Platform: " << platform() << "\n"
      << "- `accelerate` bash location: " << own_place() << "\n"
      << "- Compiler: " << ACCELERATE_COMPILER << "\n"
      << "- Python version: " << python() << "\n"
      << "- PyTorch version: " << libtorch_of_build() << "\n"
      << "- PyTorch accelerator: " << (gpus.empty() ? "N/A" : "CUDA") << "\n"
      << "- System RAM: " << format_bytes(static_cast<double>(memory_bytes())) << "\n"
      << "- CPU cores: " << physical_cores() << usable_cpus() << "\n"
      << "- Shared memory: " << shared_memory() << "\n"
      << "- Communication on the CPU: " << communication() << "\n"
      << libtorch(options);
  if (!gpus.empty()) out << "- GPU type: " << gpu_names(gpus) << "\n";
  out << config;
  return 0;
}

}  // namespace accelerate::cli
