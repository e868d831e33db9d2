// The part of the command line that needs LibTorch is a separate program, so that the rest starts
// in milliseconds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace accelerate::cli {

/// Returns its path: libexec/accelerate/accelerate-torch beside the folder of the running command.
/// The file may be absent: builds without the library have none.
[[nodiscard]] std::filesystem::path torch_program();
[[nodiscard]] bool has_torch_program();
/// Throws ConfigError that begins with `what` if there is no such program, or if it cannot start
/// with the torch that is installed.
void require_torch_program(const std::string& what);

/// Returns what is wrong with the LibTorch of libtorch_place(), and the cure; "" if it is the one
/// that this package was built for, or if there is no such place. Reads one small file.
[[nodiscard]] std::string problem_with_torch();

/// Runs the program with `words` and returns what it writes. Throws ConfigError with the program's
/// message when it fails, and when this build has no such program.
[[nodiscard]] std::string output_of_torch_program(const std::vector<std::string>& words);

/// Returns what another program writes, without blanks around it; "" when it fails.
[[nodiscard]] std::string output_of(const std::filesystem::path& program,
                                    const std::vector<std::string>& words);

}  // namespace accelerate::cli
