// Turns the words after our flags into what execve is given.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate {

/// The program cannot be started. Shells tell the two cases apart by the exit code.
class ProgramError : public LaunchError {
 public:
  static constexpr int kNotExecutable = 126;  ///< It is there but cannot be executed.
  static constexpr int kNotFound = 127;       ///< There is no such program.
  /// The exit code chooses the name of the error.
  ProgramError(const std::string& message, int exit_code);
  /// One of the two above.
  [[nodiscard]] int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

struct ProgramOptions {
  bool module = false;     ///< words[0] names a Python module: `python3 -u -m`.
  bool no_python = false;  ///< A .py file is executed itself.
};

/// Returns the command for `words`, a program and its arguments. Its first word is the path to
/// execute. A name with a slash is a path; a name without one is searched for in PATH. A file that
/// ends in `.py` (in the working folder too) is handed to python3, with unbuffered output. python3
/// is searched for in PATH, so that an active virtual environment counts. Throws ProgramError,
/// which says what was found and the cure; throws ConfigError when both options are set.
[[nodiscard]] std::vector<std::string> resolve_program(const std::vector<std::string>& words,
                                                       const ProgramOptions& options);

/// Whether a command of resolve_program() may end in a Python program: it names python or a .py file,
/// or is a script, which may start anything. A native executable with other words is not.
[[nodiscard]] bool may_run_python(const std::vector<std::string>& command);

/// The executable called `name` in the folders of PATH; empty when there is none.
[[nodiscard]] std::filesystem::path find_in_path(const std::string& name);

/// The executable of this process; empty when the system does not tell.
[[nodiscard]] std::filesystem::path own_program();

}  // namespace accelerate
