#include "accelerate/launch/machines/remote.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "accelerate/base/deadline.h"
#include "accelerate/base/descriptor.h"
#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/keyed_checksum.h"
#include "accelerate/base/tcp.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/program.h"
#include "accelerate/launch/signals.h"
#include "accelerate/launch/supervisor.h"

namespace accelerate {
namespace {

// --- What to start ---------------------------------------------------------------------------------

// A flag, else the key of the file; "" if neither says anything.
std::string said(const LaunchRequest& request, const std::string& name) {
  const auto flag = request.flags.find(name);
  if (flag != request.flags.end()) return flag->second;
  return request.config ? config_key_text(*request.config, name).value_or("") : "";
}

std::string text_of_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (file) return text.str();
  throw ConfigError("deepspeed_hostfile is '" + path +
                    "', which cannot be read: " + std::strerror(errno) + ".");
}

// The flags that each launcher gets. Where the machines are is told by torchrun's variables.
std::vector<std::string> flags_of_launchers(const LaunchRequest& request) {
  const auto ours = {"deepspeed_hostfile",
                     "deepspeed_inclusion_filter",
                     "deepspeed_exclusion_filter",
                     "deepspeed_multinode_launcher",
                     "num_machines",
                     "machine_rank",
                     "main_process_ip",
                     "main_process_port"};
  std::vector<std::string> words;
  for (const auto& [name, value] : request.flags) {
    const bool is_ours = std::ranges::any_of(ours, [&](const char* one) { return one == name; });
    if (is_ours) continue;
    words.push_back("--" + name);
    if (find_flag(name)->kind != FlagKind::toggle) words.push_back(value);
  }
  return words;
}

// Machine 0 as the others reach it. A number, because on Debian a machine knows its own name by a
// loopback address.
std::string address_of_first(const LaunchRequest& request, const std::string& host) {
  if (const auto address = said(request, "main_process_ip"); !address.empty()) return address;
  const std::string name =
      host.substr(host.find('@') == std::string::npos ? 0 : host.find('@') + 1);
  const ResolvedHost found = resolve_host(name, 0);
  std::array<char, NI_MAXHOST> number{};
  if (found.error != 0 ||
      getnameinfo(found.addresses->ai_addr, found.addresses->ai_addrlen, number.data(),
                  number.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return name;
  const std::string text = number.data();
  return text.starts_with("127.") || text == "::1" ? name : text;
}

// Ranks of each machine; 0 if --num_processes says those of all.
std::size_t ranks_of_each(const LaunchRequest& request, const std::vector<Host>& hosts) {
  const std::string of_all = said(request, "num_processes");
  if (!of_all.empty() && of_all != "-1") return 0;
  for (const auto& host : hosts) {
    if (host.slots.size() == hosts[0].slots.size()) continue;
    throw ConfigError("the hostfile gives " + count_of(hosts[0].slots.size(), "slot") + " to " +
                      hosts[0].name + " and " + std::to_string(host.slots.size()) + " to " +
                      host.name + ". Give all the same number, or filter some.");
  }
  return hosts[0].slots.size();
}

// What of this process's environment the launchers get; nothing that may be a secret.
std::vector<std::string> handed_over() {
  std::vector<std::string> assignments;
  for (const auto& [name, value] : process_environment()) {
    const auto begins = {"NCCL_", "GLOO_", "UCX_", "OMP_", "ACCELERATE_"};
    const bool is_one =
        name == "PATH" || name == "LD_LIBRARY_PATH" || name == "PYTHONPATH" ||
        std::ranges::any_of(begins, [&](const char* begin) { return name.starts_with(begin); });
    if (is_one && name != "ACCELERATE_JOB_TOKEN")
      assignments.push_back(name + "=" + shell_word(value));
  }
  return assignments;
}

// The script of a machine. Its first line of input is the token; the end of its input asks the
// launcher to end.
std::string script(const std::vector<std::string>& assignments,
                   const std::vector<std::string>& launcher) {
  std::vector<std::string> words;
  for (const auto& word : launcher) words.push_back(shell_word(word));
  return "IFS= read -r ACCELERATE_JOB_TOKEN; export ACCELERATE_JOB_TOKEN; cd " +
         shell_word(std::filesystem::current_path().string()) + " || exit 1; export " +
         join(assignments, " ") + "; exec 3<&0; " + join(words, " ") +
         " </dev/null 3<&- & launcher=$!; (cat <&3; kill -TERM $launcher) >/dev/null 2>&1 & "
         "watch=$!; wait $launcher; code=$?; kill $watch 2>/dev/null; exit $code";
}

std::string ids_of(const Host& host) {
  std::vector<std::string> ids;
  for (const int slot : host.slots) ids.push_back(std::to_string(slot));
  return join(ids, ",");
}

// --- How it runs -----------------------------------------------------------------------------------

class RemoteRun {
 public:
  explicit RemoteRun(const RemoteJob& job) : job_(job) {}

  int run() {
    for (std::size_t i = 0; i < job_.commands.size(); ++i) start(i);
    while (running() > 0) {
      await();
      for (const int signal : signals_.take()) {
        // ssh hands no signal over, so the launchers there get SIGTERM for this one too.
        if (detail::asks_to_end(signal) || signal == SIGUSR1) interrupt(signal);
      }
      collect();
      if (is_ending() && limit_->is_over()) kill_all();
    }
    return interrupted_by_ ? 128 + *interrupted_by_ : exit_code_;
  }

 private:
  struct Running {
    pid_t pid = -1;
    Descriptor end = {};  // Becomes readable when the process has ended.
    Descriptor input = {};
  };

  [[nodiscard]] bool is_ending() const { return limit_.has_value(); }
  [[nodiscard]] std::ptrdiff_t running() const {
    return std::ranges::count_if(all_, [](const Running& one) { return one.pid > 0; });
  }

  // Waits for a signal, the end of a command, or the time limit.
  void await() const {
    std::vector<pollfd> polls = {{signals_.fd(), POLLIN, 0}};
    for (const auto& one : all_) {
      if (one.pid > 0) polls.push_back({one.end.get(), POLLIN, 0});
    }
    poll(polls.data(), polls.size(), is_ending() ? 200 : -1);
  }

  void start(std::size_t number) {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
      throw LaunchError(std::string("cannot make a pipe: ") + std::strerror(errno));
    const Descriptor read_end(ends[0]);
    Running one{.input = Descriptor(ends[1])};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, read_end.get(), STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    // A group of its own: Ctrl-C is for this process, which ends the machines in order.
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &signals_.mask_before());
    std::vector<char*> argv;
    for (const auto& word : job_.commands[number]) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const int error = posix_spawn(&one.pid, argv[0], &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
      throw LaunchError("cannot execute '" + job_.commands[number][0] +
                        "': " + std::strerror(error));
    }
    one.end = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, one.pid, 0)));
    if (write_fully(one.input.get(), job_.token + "\n") != 0) (void)one.input.close();
    all_.push_back(std::move(one));
  }

  void end_all() {
    for (auto& one : all_) (void)one.input.close();
    if (!limit_) limit_.emplace(job_.grace_period + std::chrono::seconds(10));
  }

  void kill_all() {
    for (const auto& one : all_) {
      if (one.pid > 0) kill(-one.pid, SIGKILL);
    }
  }

  void interrupt(int signal) {
    if (interrupted_by_ && signal == SIGINT) return kill_all();
    interrupted_by_ = signal;
    tell(signal_name(signal) + " ends the launchers on all machines" +
         (signal == SIGINT ? "; Ctrl-C again leaves them" : ""));
    end_all();
  }

  void collect() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      int status = 0;
      if (all_[i].pid <= 0 || waitpid(all_[i].pid, &status, WNOHANG) != all_[i].pid) continue;
      all_[i].pid = -1;
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == 0 || is_ending()) continue;
      exit_code_ = code;
      tell(job_.hosts[i] + ": ssh ended with " + std::to_string(code) +
           (code == 255 ? ", which it does if it cannot connect" : ""));
      end_all();
    }
  }

  void tell(const std::string& text) const {
    if (job_.report) job_.report(text);
  }

  const RemoteJob& job_;
  detail::SignalScope signals_;
  std::vector<Running> all_;
  std::optional<Deadline> limit_;  // Once the job ends.
  std::optional<int> interrupted_by_;
  int exit_code_ = 0;
};

}  // namespace

std::optional<std::vector<Host>> hosts_to_start(const LaunchRequest& request) {
  const std::string file = said(request, "deepspeed_hostfile");
  const std::string starter = lower(said(request, "deepspeed_multinode_launcher"));
  const bool is_flag = request.flags.contains("deepspeed_hostfile");
  const auto machines = parse_int(said(request, "num_machines")).value_or(1);
  const bool is_started =
      request.scheduler && (request.scheduler->machine || request.scheduler->task);
  const bool by_hand = starter == "standard" || starter == "nossh";
  if (file.empty() || is_started || by_hand || (!is_flag && machines == 1)) return std::nullopt;
  if (!starter.empty() && starter != "pdsh") {
    throw ConfigError(
        "deepspeed_multinode_launcher is '" + starter +
        "'; a hostfile works with pdsh, which means ssh here, standard and nossh. For MPI use "
        "--mpirun_hostfile, or mpirun accelerate launch; for Slurm srun accelerate "
        "launch.");
  }
  auto hosts = filter_hosts(parse_hosts(text_of_file(file), file),
                            said(request, "deepspeed_inclusion_filter"),
                            said(request, "deepspeed_exclusion_filter"));
  if (is_flag && machines == 1 && !request.flags.contains("num_machines")) return hosts;
  if (static_cast<std::size_t>(machines) == hosts.size()) return hosts;
  throw ConfigError(request.where("num_machines") + " is '" + std::to_string(machines) + "', and " +
                    file + " with its filters has " + count_of(hosts.size(), "host") +
                    ". Leave out --num_machines, or filter the hosts.");
}

RemoteJob remote_job(const LaunchRequest& request, const std::vector<Host>& hosts,
                     const std::vector<std::string>& program) {
  const std::string ssh = find_in_path("ssh");
  if (ssh.empty())
    throw LaunchError("deepspeed_hostfile needs ssh in PATH, and it is not there. Install it.");
  RemoteJob job{.token = env("ACCELERATE_JOB_TOKEN").value_or(random_digits().value_or(""))};
  const auto grace = request.flags.find("grace_period");
  const double seconds =
      parse_double(grace == request.flags.end() ? "" : grace->second).value_or(30);
  job.grace_period = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  const std::size_t ranks = ranks_of_each(request, hosts);
  const std::string port = said(request, "main_process_port");
  auto assignments = handed_over();
  assignments.insert(assignments.end(),
                     {"PET_NNODES=" + std::to_string(hosts.size()),
                      "PET_MASTER_ADDR=" + shell_word(address_of_first(request, hosts[0].name)),
                      "PET_MASTER_PORT=" + (port.empty() ? "29500" : port)});
  if (ranks > 0) assignments.push_back("PET_NPROC_PER_NODE=" + std::to_string(ranks));
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    auto own = assignments;
    own.push_back("PET_NODE_RANK=" + std::to_string(i));
    std::vector<std::string> launcher = {own_program().string(), "launch"};
    const auto flags = flags_of_launchers(request);
    launcher.insert(launcher.end(), flags.begin(), flags.end());
    if (!hosts[i].is_whole) launcher.insert(launcher.end(), {"--gpu_ids", ids_of(hosts[i])});
    launcher.push_back("--");
    launcher.insert(launcher.end(), program.begin(), program.end());
    // Whatever the user's shell there is, it hands the script to sh.
    job.commands.push_back({ssh, "-o", "BatchMode=yes", hosts[i].name,
                            "exec sh -c " + shell_word(script(own, launcher))});
    job.hosts.push_back(hosts[i].name);
  }
  return job;
}

int run_remote_job(const RemoteJob& job) {
  return RemoteRun(job).run();
}

}  // namespace accelerate
