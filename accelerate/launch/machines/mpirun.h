// Ranks that mpirun starts, on the hosts of --mpirun_hostfile.
#pragma once

#include <string>
#include <vector>

#include "accelerate/launch/plan.h"
#include "accelerate/launch/settings.h"

namespace accelerate {

/// A command, and what its environment has on top of the caller's.
struct Command {
  std::vector<std::string> argv;  ///< argv[0] is the path that is executed.
  Environment environment;
};

/// Returns the words for the mpirun at `path`. Flags are upstream's. `version`: what its --version
/// prints; Open MPI takes other flags than MPICH, Intel MPI and MVAPICH, and must be told by -x which
/// variables go to other hosts. No value of `environment` is among the words.
[[nodiscard]] std::vector<std::string> mpirun_words(const std::string& path,
                                                    const std::string& version,
                                                    const LaunchOptions& settings,
                                                    const Environment& environment);

/// Returns the command that starts `program` on the hosts of --mpirun_hostfile. Ranks learn who they
/// are from MPI's variables. Throws LaunchError if neither mpirun nor mpiexec is in PATH, and
/// ProgramError.
[[nodiscard]] Command mpirun_command(const LaunchOptions& settings,
                                     const std::vector<std::string>& program);

/// Executes the command in the place of this process. Throws LaunchError if it cannot.
[[noreturn]] void become(const Command& command);

}  // namespace accelerate
