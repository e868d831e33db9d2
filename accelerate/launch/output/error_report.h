// Reads the file in which a rank says what ended it: run_main of a native program writes it, and
// torch.distributed.elastic of a Python program.
#pragma once

#include <filesystem>
#include <string>

namespace accelerate::detail {

/// Returns the message of the error, such as "ValueError: no such class", safe to print and at most
/// about 1000 bytes long. Lines after the first are indented. Returns "" if there is no such file,
/// and if it is not what was expected. Never waits.
[[nodiscard]] std::string read_error_report(const std::filesystem::path& file);

}  // namespace accelerate::detail
