// A file read from its beginning through a window that moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// What some programs write before UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Not a mapping: a file that is cut short while it is mapped kills the process by SIGBUS, and here
/// it is an error.
class FileWindow {
 public:
  /// Throws FileError for what is no regular file or cannot be opened.
  explicit FileWindow(const std::filesystem::path& file);

  /// What has been read and not been left behind. Valid until the next grow().
  [[nodiscard]] std::string_view text() const { return std::string_view(bytes_).substr(begin_); }
  /// Reads more behind text(), 256 KiB at least; false at the end of the file. Throws FileError
  /// when reading fails, DataError when the file ends before the size that it had at first and when
  /// it begins as a compressed one does.
  bool grow();
  /// Leaves the first `bytes` of text() behind.
  void leave(std::size_t bytes) { begin_ += bytes; }

 private:
  void check_beginning() const;

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0, read_ = 0;
  std::string bytes_;
  std::size_t begin_ = 0;
};

}  // namespace accelerate::detail
