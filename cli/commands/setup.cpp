#include "cli/commands/commands.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <memory>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/program.h"
#include "cli/reference/command_text.h"
#include "cli/torch_program/libtorch_folder.h"
#include "cli/torch_program/torch_program.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

// Returns the LibTorch in `place`, which holds one or is a Python environment with the wheel; "" if
// there is none.
fs::path libtorch_in(const fs::path& place) {
  std::vector<fs::path> folders{place, place / "torch", place / "libtorch"};
  std::error_code ignored;
  for (const char* libraries : {"lib", "lib64"})
    for (const auto& entry : fs::directory_iterator(place / libraries, ignored))
      if (entry.path().filename().string().starts_with("python3"))
        folders.push_back(entry.path() / "site-packages/torch");
  for (const auto& folder : folders)
    if (has_libtorch(folder)) return folder;
  return {};
}

// Looks where CMake does: cmake/FindLibTorch.cmake.
fs::path look_for_libtorch() {
  std::vector<std::string> places{env("TORCH_INSTALL_PREFIX").value_or("")};
  for (const auto& place : split(env("CMAKE_PREFIX_PATH").value_or(""), ':'))
    places.push_back(place);
  if (const auto python = find_in_path("python3"); !python.empty())
    places.push_back(output_of(
        python,
        {"-c",
         "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"}));
  for (const auto& place : places)
    if (!place.empty())
      if (const auto found = libtorch_in(place); !found.empty()) return found;
  throw ConfigError(
      "no LibTorch was found in TORCH_INSTALL_PREFIX, CMAKE_PREFIX_PATH and the python3 in PATH. " +
      libtorch_cure());
}

std::string kind_of(const fs::path& folder) {
  std::error_code ignored;
  return std::string(fs::exists(folder / "version.py", ignored) ? "a Python wheel"
                                                                : "an unpacked LibTorch") +
         (fs::exists(folder / "lib/libtorch_cuda.so", ignored) ? " for CUDA" : " for the CPU");
}

fs::path named_libtorch(const fs::path& place) {
  if (place.empty())
    throw ConfigError("--torch is ''; it must name a folder. Is a variable of the shell unset?");
  const fs::path named = fs::absolute(place).lexically_normal();
  if (::access(named.c_str(), R_OK | X_OK) != 0) {
    const int reason = errno;
    throw ConfigError("--torch is '" + place.string() + "': " + std::strerror(reason));
  }
  const auto found = libtorch_in(named);
  if (!found.empty()) return found;
  throw ConfigError("--torch is '" + place.string() +
                    "', in which there is no lib/libtorch.so. It must be an unpacked LibTorch, the "
                    "`torch` folder of a wheel, or a Python environment with that wheel. " +
                    libtorch_cure());
}

void check_version(const fs::path& folder) {
  const std::string found = libtorch_version(folder);
  if (found.starts_with(wanted_libtorch() + ".")) return;
  throw ConfigError("the LibTorch in " + folder.string() + ", " + kind_of(folder) +
                    ", has version " + (found.empty() ? "unknown" : found) +
                    ", but this package was built for " + wanted_libtorch() +
                    ", whose binary interface is another. " + libtorch_cure());
}

void write_link(const fs::path& link, const fs::path& folder) {
  std::error_code error;
  const fs::path fresh = link.string() + ".new";
  fs::remove(fresh, error);
  fs::create_symlink(folder, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error)
    throw ConfigError("cannot write the link " + link.string() + ": " + error.message() + ". " +
                      (::geteuid() == 0 ? "Is it on a disk that can be written?"
                                        : "Root may: `sudo accelerate-cpp setup --torch " +
                                              shell_word(folder.string()) + "`"));
}

}  // namespace

int run_setup(const SetupOptions& options, std::ostream& out) {
  if (options.link.empty())
    throw ConfigError(
        "`setup` is for the Debian packages. This command is from a build or a Python wheel, whose "
        "LibTorch was chosen when it was built or installed");
  const fs::path folder = options.torch ? named_libtorch(*options.torch) : look_for_libtorch();
  check_version(folder);
  out << "LibTorch " << libtorch_version(folder) << ", " << kind_of(folder) << ", in "
      << folder.string() << "\n";
  write_link(options.link, folder);
  out << "written: " << options.link.string() << "\n";
  return 0;
}

void setup_setup(CLI::App& app, int& exit_code) {
  auto* command = app.add_subcommand("setup", "Tell the Debian packages which LibTorch to use");
  auto options = std::make_shared<SetupOptions>();
  command
      ->add_option(
          "--torch", options->torch,
          "An unpacked LibTorch, the torch folder of a wheel, or a Python environment with "
          "the wheel [the one that CMake would find]")
      ->type_name("DIR");
  command->footer("It writes the link /etc/accelerate-cpp/libtorch, which root may.");
  command->callback([options, &exit_code] {
    options->link = libtorch_link();
    exit_code = run_setup(*options, std::cout);
  });
}

}  // namespace accelerate::cli
