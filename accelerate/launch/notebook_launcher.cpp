#include "accelerate/launch/notebook_launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <initializer_list>
#include <iostream>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/supervisor.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

std::size_t entries_of(const fs::path& folder) {
  std::error_code error;
  const auto entries = fs::directory_iterator(folder, error);
  return error ? 0 : static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

// CUDA keeps the driver's files open from its first call on.
bool has_used_cuda() {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error))
    if (fs::read_symlink(entry.path(), error).string().starts_with("/dev/nvidia")) return true;
  return false;
}

void check_can_be_copied() {
  if (env_flag("FORK_LAUNCHED", false) || env("RANK"))
    throw UsageError(
        "notebook_launcher was called on a rank: call it once, outside of what the ranks run, in a "
        "program that no launcher started");
  if (detail::is_training())
    throw UsageError(
        "this process already has an Accelerator or PartialState of one rank, which forked ranks "
        "would inherit. Create it only inside the function, not before notebook_launcher",
        error_name::kProcessForked);
  if (has_used_cuda())
    throw UsageError(
        "this process has used CUDA, so forked ranks cannot use it. Restart the process, and use "
        "no GPU before notebook_launcher. Create the Accelerator and all GPU tensors inside the "
        "function",
        error_name::kProcessForked);
  if (const std::size_t threads = entries_of("/proc/self/task"); threads > 1)
    throw UsageError(
        "this process has " + std::to_string(threads) +
            " threads, but a forked rank would have only one. Call notebook_launcher before any "
            "computation, or at::set_num_threads(1) at the program's start. Create the Accelerator "
            "and its loaders inside the function",
        error_name::kProcessForked);
}

void check_options(const NotebookLauncherOptions& options) {
  if (options.num_nodes != 1 || options.node_rank != 0)
    throw ConfigError("num_nodes is " + std::to_string(options.num_nodes) + " and node_rank " +
                      std::to_string(options.node_rank) +
                      "; ranks are started on one machine: leave both out");
  if (options.rdzv_backend != "static")
    throw ConfigError("rdzv_backend is '" + options.rdzv_backend + "'; allowed is static");
  for (const auto& [name, value] :
       {std::pair("rdzv_endpoint", options.rdzv_endpoint),
        std::pair("rdzv_conf", options.rdzv_conf), std::pair("rdzv_id", options.rdzv_id)})
    if (!value.empty())
      throw ConfigError(std::string(name) + " is '" + value +
                        "', and there is no rendezvous to configure: leave it out");
  if (lower(options.mixed_precision) == "fp8")
    throw ConfigError("mixed_precision is 'fp8'; allowed are no, fp16 and bf16");
  if (options.max_restarts < 0)
    throw ConfigError("max_restarts is " + std::to_string(options.max_restarts) +
                      "; allowed are 0 and more");
}

using Replacements = std::initializer_list<std::pair<std::string, std::string>>;

// Replaces each first text by its second, in the order given.
std::string replaced(std::string text, const Replacements& replacements) {
  for (const auto& [from, to] : replacements)
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  return text;
}

// Replaces the names of the launcher's flags by the names of our options.
std::string in_own_words(const std::string& text) {
  return replaced(text, {{"--main_process_port", "use_port"},
                         {"main_process_port", "use_port"},
                         {"--main_process_ip", "master_addr"},
                         {"main_process_ip", "master_addr"},
                         {"--num_processes", "num_processes"},
                         {"--mixed_precision", "mixed_precision"}});
}

LaunchPlan plan_from(const NotebookLauncherOptions& options) {
  LaunchRequest request;
  const auto set = [&](const char* name, const std::string& text) {
    request.flags[name] = checked_value(*find_flag(name), text, name);
  };
  const int usual = options.cpu ? 1 : std::max(gpu_count(), 1);
  set("num_processes", std::to_string(options.num_processes.value_or(usual)));
  // "no" is what nobody has to ask for, and a file of the program may say another.
  if (options.mixed_precision != "no") set("mixed_precision", options.mixed_precision);
  set("main_process_ip", options.master_addr);
  set("main_process_port", std::to_string(options.use_port));
  if (options.cpu) set("cpu", "True");
  LaunchPlan plan = make_plan(merge_settings(request, this_machine()), ProgramKind::native);
  plan.shared["FORK_LAUNCHED"] = "1";
  for (const auto& warning : plan.warnings)
    std::cerr << "accelerate: " << in_own_words(warning) << "\n";
  return plan;
}

LaunchPlan plan_of(const NotebookLauncherOptions& options) {
  try {
    return plan_from(options);
  } catch (const ConfigError& error) {
    throw ConfigError(in_own_words(error.what()));
  }
}

std::string with_rank(const std::string& text, const std::string& rank) {
  return replaced(text, {{"${rank}", rank}, {"${local_rank}", rank}, {"${role_name}", "default"}});
}

// A process beside the rank that puts a prefix before each line that the rank writes to `fd`.
class PrefixedOutput {
 public:
  PrefixedOutput(int fd, const std::string& prefix) : fd_(fd) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    const Descriptor from(ends[0]), into(ends[1]);
    writer_ = ::fork();
    if (writer_ == 0) {
      ::signal(SIGTERM, SIG_IGN);  // The rank may still write.
      ::signal(SIGINT, SIG_IGN);
      ::close(into.get());
      for (const int other : {STDOUT_FILENO, STDERR_FILENO})
        if (other != fd) ::close(other);
      copy_lines(from.get(), fd, prefix);
      ::_exit(0);
    }
    if (writer_ > 0) ::dup2(into.get(), fd);
  }
  // Waits a second at most. What the rank has started may keep the pipe open; then the launcher
  // ends the writer with the group.
  ~PrefixedOutput() {
    ::close(fd_);
    constexpr int kLooks = 200;
    for (int i = 0; i < kLooks && writer_ > 0 && ::waitpid(writer_, nullptr, WNOHANG) == 0; ++i)
      ::usleep(5000);
  }
  PrefixedOutput(const PrefixedOutput&) = delete;
  PrefixedOutput& operator=(const PrefixedOutput&) = delete;

 private:
  // Copies until the pipe ends, or until the rank is gone and nothing comes.
  static void copy_lines(int from, int to, const std::string& prefix) {
    constexpr int kPatience = 100;
    const pid_t rank = ::getppid();
    std::string line;
    std::array<char, 4096> part{};
    for (;;) {
      pollfd wait = {from, POLLIN, 0};
      const int ready = ::poll(&wait, 1, kPatience);
      if (ready == 0 && ::getppid() != rank) break;
      if (ready <= 0) continue;
      const ssize_t got = ::read(from, part.data(), part.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      line.append(part.data(), static_cast<std::size_t>(got));
      for (std::size_t end = line.find('\n'); end != std::string::npos; end = line.find('\n')) {
        (void)write_fully(to, prefix + line.substr(0, end + 1));
        line.erase(0, end + 1);
      }
    }
    if (!line.empty()) (void)write_fully(to, prefix + line);
  }

  int fd_;
  pid_t writer_ = -1;
};

// The first byte of what a rank leaves. A rank that ended by exit() leaves none.
constexpr char kReturned = 'R', kThrew = 'E';

// Holds what each rank returned or threw.
class Results {
 public:
  explicit Results(std::size_t ranks) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      files_.emplace_back(::memfd_create("accelerate-result", MFD_CLOEXEC));
      if (!files_.back().valid())
        throw LaunchError("the system gives no memory file for what ranks return");
    }
  }

  void write(int rank, char kind, const std::string& text) {
    const int file = files_[static_cast<std::size_t>(rank)].get();
    // The byte is written last: a result without it does not count.
    if (write_fully_at(file, 1, text) == 0) (void)write_fully_at(file, 0, std::string(1, kind));
  }
  [[nodiscard]] std::string read(int rank) const {
    const int file = files_[static_cast<std::size_t>(rank)].get();
    std::string text(static_cast<std::size_t>(std::max<off_t>(::lseek(file, 0, SEEK_END), 0)),
                     '\0');
    for (std::size_t at = 0; at < text.size();) {
      const ssize_t got = ::pread(file, text.data() + at, text.size() - at, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) throw LaunchError("what a rank returned cannot be read");
      at += static_cast<std::size_t>(got);
    }
    return text;
  }

 private:
  std::vector<Descriptor> files_;
};

// Runs in the copy. Returns its exit code.
int run_rank(const std::function<std::string()>& body, Results& results, int rank,
             const std::string& prefix_template) {
  std::optional<PrefixedOutput> out, err;
  if (!prefix_template.empty()) {
    const std::string prefix = with_rank(prefix_template, std::to_string(rank));
    out.emplace(STDOUT_FILENO, prefix);
    err.emplace(STDERR_FILENO, prefix);
  }
  int exit_code = 0;
  try {
    results.write(rank, kReturned, body());
  } catch (const std::exception& error) {
    results.write(rank, kThrew, describe(error));
    exit_code = 1;
  } catch (...) {
    results.write(rank, kThrew, "something that is not a std::exception");
    exit_code = 1;
  }
  std::cout << std::flush;
  std::fflush(nullptr);
  return exit_code;
}

[[noreturn]] void fail(const LaunchResult& launched, const Results& results) {
  if (launched.interrupted_by)
    throw LaunchError("the ranks were ended by " + signal_name(*launched.interrupted_by));
  const int rank = launched.first_failure.value_or(launched.first_asked.value_or(0));
  const RankResult& result = launched.ranks[static_cast<std::size_t>(rank)];
  if (const std::string text = results.read(rank);
      result.exit_code == 1 && text.starts_with(kThrew))
    throw LaunchError("rank " + std::to_string(rank) + " threw " + text.substr(1));
  throw LaunchError(describe_rank(result));
}

}  // namespace

std::vector<std::string> detail::run_in_forks(const std::function<std::string()>& body,
                                              const NotebookLauncherOptions& options) {
  check_options(options);
  check_can_be_copied();
  for (int restarts = 0;; ++restarts) {
    LaunchPlan plan = plan_of(options);
    Results results(plan.ranks.size());
    std::cout << std::flush;
    std::fflush(nullptr);  // Otherwise each copy would write what is buffered.
    plan.body = [&](int rank) {
      return run_rank(body, results, rank, options.log_line_prefix_template);
    };
    const LaunchResult launched = launch(plan);
    if (launched.exit_code() != 0) {
      if (launched.was_asked_to_end() || restarts == options.max_restarts) fail(launched, results);
      continue;
    }
    std::vector<std::string> returned;
    for (const RankResult& rank : launched.ranks) {
      const std::string text = results.read(rank.rank);
      if (!text.starts_with(kReturned))
        throw LaunchError("rank " + std::to_string(rank.rank) +
                          " ended without returning: by exit()?");
      returned.push_back(text.substr(1));
    }
    return returned;
  }
}

}  // namespace accelerate
