// The error of a file or folder that the operating system refused, with its path.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "accelerate/base/error.h"

namespace accelerate {

/// The operating system refused something: "cannot open '/data/a.yaml': Permission denied".
class FileError : public Error {
 public:
  /// `action` is a verb, as in "cannot <action> '<path>'".
  /// A full disk and a limit on open files have names of their own.
  FileError(std::string_view action, std::filesystem::path path, int error_number);
  /// For a failure without an errno, such as a pipe where a file should be:
  /// "cannot read '<path>': <reason>".
  FileError(std::string_view action, std::filesystem::path path, const std::string& reason,
            ErrorName name = {});

  [[nodiscard]] std::string_view kind() const noexcept override { return "FileError"; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// The errno; 0 when the error was made with a reason instead.
  [[nodiscard]] int error_number() const noexcept { return error_number_; }

 private:
  std::filesystem::path path_;
  int error_number_ = 0;
};

namespace detail {
/// The name for an errno of a full disk or of a limit on open files; none for others.
[[nodiscard]] ErrorName name_of_errno(int error_number);

/// Returns `path` in single quotes, for messages. A name may hold any bytes, so control characters,
/// which could steer a terminal, become '?'.
[[nodiscard]] std::string quoted_path(const std::filesystem::path& path);
}  // namespace detail

}  // namespace accelerate
