#include "accelerate/base/file_error.h"

#include <system_error>
#include <utility>

namespace accelerate {
namespace {

std::string reason_of(int error_number) {
  return std::error_code(error_number, std::generic_category()).message();
}

}  // namespace

std::string detail::quoted_path(const std::filesystem::path& path) {
  std::string text = path.native();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return "'" + text + "'";
}

FileError::FileError(std::string_view action, std::filesystem::path path, int error_number)
    : FileError(action, std::move(path), reason_of(error_number)) {
  error_number_ = error_number;
}

FileError::FileError(std::string_view action, std::filesystem::path path, const std::string& reason)
    : Error("cannot " + std::string(action) + " " + detail::quoted_path(path) + ": " + reason),
      path_(std::move(path)) {}

}  // namespace accelerate
