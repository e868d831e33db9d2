#include "accelerate/base/file_error.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "accelerate/base/untrusted_text.h"

namespace accelerate {
namespace {

std::string reason_of(int error_number) {
  const std::string text = std::error_code(error_number, std::generic_category()).message();
  return error_number == EFBIG ? text + " (the limit of `ulimit -f`, or of the file system)" : text;
}

}  // namespace

std::string detail::quoted_path(const std::filesystem::path& path) {
  return "'" + untrusted_line(path.native()) + "'";
}

FileError::FileError(std::string_view action, std::filesystem::path path, int error_number)
    : FileError(action, std::move(path), reason_of(error_number)) {
  error_number_ = error_number;
}

FileError::FileError(std::string_view action, std::filesystem::path path, const std::string& reason)
    : Error("cannot " + std::string(action) + " " + detail::quoted_path(path) + ": " + reason),
      path_(std::move(path)) {}

}  // namespace accelerate
