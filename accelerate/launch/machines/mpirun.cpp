#include "accelerate/launch/machines/mpirun.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/program.h"
#include "accelerate/launch/protocol.h"

namespace accelerate {
namespace {

// What `mpirun --version` prints.
std::string version_of(const std::string& path) {
  const auto close = [](FILE* pipe) { return pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> pipe(
      popen((shell_word(path) + " --version 2>&1").c_str(), "r"), close);
  std::string text;
  std::array<char, 4096> buffer{};
  while (pipe && text.size() < (std::size_t{1} << 20)) {
    const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe.get());
    if (count == 0) break;
    text.append(buffer.data(), count);
  }
  return text;
}

std::string find_mpirun() {
  for (const char* name : {"mpirun", "mpiexec"}) {
    if (const auto path = find_in_path(name); !path.empty()) return path;
  }
  throw LaunchError(
      "--mpirun_hostfile needs mpirun or mpiexec in PATH, and neither is there. Install Open MPI, "
      "MPICH or Intel MPI, or start one launcher a machine: --num_machines, --machine_rank.");
}

Environment environment_of_ranks(const LaunchOptions& settings, ProgramKind kind) {
  Environment environment = shared_environment(settings, kind);
  const std::string address = settings.text("main_process_ip");
  environment["MASTER_ADDR"] = address.empty() ? "127.0.0.1" : address;
  environment["MASTER_PORT"] =
      std::to_string(settings.main_process_port == 0 ? 29500 : settings.main_process_port);
  auto token = env("ACCELERATE_JOB_TOKEN");
  if (!token) token = random_digits();
  if (token) environment["ACCELERATE_JOB_TOKEN"] = *token;
  return environment;
}

}  // namespace

std::vector<std::string> mpirun_words(const std::string& path, const std::string& version,
                                      const LaunchOptions& settings,
                                      const Environment& environment) {
  // Under another name, as Debian's mpirun.openmpi, it calls itself OpenRTE.
  const bool is_open_mpi =
      version.find("Open MPI") != std::string::npos || version.find("OpenRTE") != std::string::npos;
  const std::string here = std::to_string(settings.num_processes);
  std::vector<std::string> words = {path, is_open_mpi ? "--hostfile" : "-f",
                                    settings.text("mpirun_hostfile"),
                                    is_open_mpi ? "--npernode" : "-ppn", here};
  if (settings.asked("num_processes") != nullptr) {
    words.insert(words.end(),
                 {"-n", std::to_string(settings.num_processes * settings.num_machines)});
  }
  if (!is_open_mpi) return words;  // They hand over the whole environment.
  words.insert(words.end(), {"--bind-to", "socket"});
  for (const auto& [name, value] : environment) words.insert(words.end(), {"-x", name});
  return words;
}

Command mpirun_command(const LaunchOptions& settings, const std::vector<std::string>& program) {
  const auto argv =
      resolve_program(program, {settings.is_on("module"), settings.is_on("no_python")});
  const auto kind = may_run_python(argv) ? ProgramKind::python : ProgramKind::native;
  Command command{.argv = {}, .environment = environment_of_ranks(settings, kind)};
  const std::string path = find_mpirun();
  command.argv = mpirun_words(path, version_of(path), settings, command.environment);
  command.argv.insert(command.argv.end(), argv.begin(), argv.end());
  return command;
}

void become(const Command& command) {
  for (const auto& [name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const auto& word : command.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  throw LaunchError("cannot execute '" + command.argv[0] + "': " + std::strerror(errno));
}

}  // namespace accelerate
