#include "accelerate/base/file_error.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "accelerate/base/error_name.h"
#include "accelerate/base/untrusted_text.h"

namespace accelerate {
namespace {

std::string reason_of(int error_number) {
  const std::string text = std::error_code(error_number, std::generic_category()).message();
  return error_number == EFBIG ? text + " (the limit of `ulimit -f`, or of the file system)" : text;
}

}  // namespace

ErrorName detail::name_of_errno(int error_number) {
  if (error_number == ENOSPC || error_number == EDQUOT) return error_name::kDiskFull;
  if (error_number == EMFILE || error_number == ENFILE) return error_name::kTooManyOpenFiles;
  return {};
}

std::string detail::quoted_path(const std::filesystem::path& path) {
  return "'" + untrusted_line(path.native()) + "'";
}

FileError::FileError(std::string_view action, std::filesystem::path path, int error_number)
    : FileError(action, std::move(path), reason_of(error_number),
                detail::name_of_errno(error_number)) {
  error_number_ = error_number;
}

FileError::FileError(std::string_view action, std::filesystem::path path, const std::string& reason,
                     ErrorName name)
    : Error("cannot " + std::string(action) + " " + detail::quoted_path(path) + ": " + reason,
            name),
      path_(std::move(path)) {}

}  // namespace accelerate
