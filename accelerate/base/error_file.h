// Tells a launcher what ended a program.
#pragma once

#include <exception>
#include <string>

namespace accelerate::detail {

/// Returns what the file holds, in the format of torch.distributed.elastic (errors/error_handler.py,
/// ErrorHandler.record_exception): one JSON object in ASCII, with the type and message of `error`,
/// the message with its causes in the place of Python's call stack, and the time.
[[nodiscard]] std::string error_file_text(const std::exception& error);

/// Writes error_file_text() into the file that TORCHELASTIC_ERROR_FILE names. Does nothing if the
/// variable is not set or is empty, or if the file cannot be written.
void write_error_file(const std::exception& error);

}  // namespace accelerate::detail
