#include "cli/torch_program/torch_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/program.h"
#include "cli/torch_program/libtorch_folder.h"

namespace accelerate::cli {
namespace {

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> part{};
  for (;;) {
    const ssize_t got = ::read(fd, part.data(), part.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(got));
  }
}

struct Outcome {
  int status = 0;
  std::string text;
};

// Runs the program and returns both of its outputs as one text.
Outcome run(const std::filesystem::path& program, const std::vector<std::string>& words) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
  const Descriptor out(ends[0]);
  Descriptor in(ends[1]);
  std::vector<std::string> all{program.string()};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> argv;
  for (std::string& word : all) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, in.get(), STDERR_FILENO);
  pid_t pid = -1;
  const int failure =
      ::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failure != 0)
    throw std::system_error(failure, std::generic_category(), "cannot run " + program.string());
  (void)in.close();
  Outcome outcome{.text = read_all(out.get())};
  while (::waitpid(pid, &outcome.status, 0) < 0 && errno == EINTR) {
  }
  return outcome;
}

}  // namespace

std::filesystem::path torch_program() {
  return own_program().parent_path().parent_path() / "libexec" / "accelerate" / "accelerate-torch";
}

std::string problem_with_torch() {
  const auto folder = libtorch_place();
  if (folder.empty()) return {};
  const std::string wanted = wanted_libtorch();
  const bool is_linked = folder == libtorch_link();
  if (!has_libtorch(folder))
    return is_linked
               ? "LibTorch is not set up: there is no LibTorch in " + folder.string() + ". " +
                     libtorch_cure()
               : "LibTorch is missing: there is no torch in " + folder.parent_path().string() +
                     ", where this package looks for it. `pip install --ignore-installed "
                     "\"torch==" +
                     wanted + ".*\"` in the environment of this package puts it there";
  const std::string found = libtorch_version(folder);
  if (found.starts_with(wanted + ".")) return {};
  return "torch " + (found.empty() ? "of an unknown version" : found) + " in " + folder.string() +
         " has another binary interface. " +
         (is_linked ? libtorch_cure()
                    : "`pip install \"torch==" + wanted +
                          ".*\"` installs the one that this package was built for");
}

void require_torch_program(const std::string& what) {
  if (const auto problem = problem_with_torch(); !problem.empty())
    throw ConfigError(what + " needs LibTorch. " + problem);
  if (has_torch_program()) return;
  throw ConfigError(what + " needs LibTorch, and " + torch_program().string() +
                    " is not there. Build the target accelerate_torch, with "
                    "ACCELERATE_BUILD_LIBRARY and ACCELERATE_BUILD_TOKENIZERS on");
}

std::string output_of(const std::filesystem::path& program, const std::vector<std::string>& words) {
  const Outcome outcome = run(program, words);
  return outcome.status == 0 ? std::string(trim(outcome.text)) : "";
}

bool has_torch_program() {
  return ::access(torch_program().c_str(), X_OK) == 0;
}

std::string output_of_torch_program(const std::vector<std::string>& words) {
  require_torch_program("this");
  const Outcome outcome = run(torch_program(), words);
  if (outcome.status == 0) return outcome.text;
  throw ConfigError(std::string(trim(outcome.text)));
}

}  // namespace accelerate::cli
