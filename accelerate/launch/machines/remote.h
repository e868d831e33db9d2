// Launchers that ssh starts, one on each machine of a hostfile.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/machines/hosts.h"
#include "accelerate/launch/settings.h"

namespace accelerate {

/// What is started on other machines.
struct RemoteJob {
  std::vector<std::vector<std::string>> commands =
      {};                                          ///< One a machine, e.g. ssh and its arguments.
  std::vector<std::string> hosts = {};             ///< Their names, for messages.
  std::string token;                               ///< The first line that each command reads.
  std::chrono::milliseconds grace_period{30'000};  ///< That the launchers give to their ranks.
  std::function<void(const std::string&)> report = {};  ///< Is told what ends the job.
};

/// Returns the hosts on which ssh is to start launchers; nullopt if it is to start none. --deepspeed_hostfile
/// asks for it; so does the key of a file that names several machines. Not if
/// deepspeed_multinode_launcher is `standard` or `nossh`, nor on a machine that a scheduler or ssh
/// has started already. Throws ConfigError for a hostfile or a filter that cannot be read, and for
/// other values of deepspeed_multinode_launcher.
[[nodiscard]] std::optional<std::vector<Host>> hosts_to_start(const LaunchRequest& request);

/// Returns the job that starts `program` on `hosts` with the flags of `request`. No secret is among
/// its words. Throws ConfigError, and LaunchError if ssh is not in PATH.
[[nodiscard]] RemoteJob remote_job(const LaunchRequest& request, const std::vector<Host>& hosts,
                                   const std::vector<std::string>& program);

/// Runs the commands, and returns the exit code of the first that failed, 128 + signal after an
/// interruption, else 0. Their standard input ends when one fails or when this process is asked to
/// end or dies; the launchers then end their ranks. Commands that do not end then are killed ten
/// seconds after the grace period.
///
/// Threads: as launch(). Throws LaunchError if a command cannot be started.
[[nodiscard]] int run_remote_job(const RemoteJob& job);

}  // namespace accelerate
