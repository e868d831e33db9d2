// Reads a file from its beginning through a moving window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

/// Some programs write these bytes before UTF-8.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Reads the file instead of mapping it. If the file is cut short, this is an error; with a
/// mapping, SIGBUS would kill the process.
class FileWindow {
 public:
  /// Throws FileError if the file is not a regular file or cannot be opened.
  explicit FileWindow(const std::filesystem::path& file);

  /// The bytes that have been read and not been left behind. Valid until the next grow().
  [[nodiscard]] std::string_view text() const { return std::string_view(bytes_).substr(begin_); }
  /// Reads more bytes behind text(). Returns false at the end of the file. Throws FileError when
  /// reading fails. Throws DataError when the file ends before the size that it had when it was
  /// opened, and when its first bytes are those of a compressed file.
  bool grow();
  /// Leaves the first `bytes` of text() behind.
  void leave(std::size_t bytes) { begin_ += bytes; }
  /// Where text() begins in the file.
  [[nodiscard]] std::uint64_t place() const { return read_ - (bytes_.size() - begin_); }
  /// Moves text() to a place where it began before. It is empty until the next grow().
  void go_back(std::uint64_t place);

 private:
  void check_beginning() const;

  std::filesystem::path file_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0, read_ = 0;
  std::string bytes_;
  std::size_t begin_ = 0;
};

}  // namespace accelerate::detail
