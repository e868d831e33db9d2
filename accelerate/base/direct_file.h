// A file that is read and written past the page cache.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "accelerate/base/aligned_bytes.h"
#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_error.h"

namespace accelerate {

/// A regular file that is read and written past the page cache, at any offset, length and memory
/// alignment. So large files take no memory beside the caller's, and displace nothing that is
/// cached.
///
/// Memory that lies in its page as the file's bytes lie in their block is read and written without
/// a copy. Other memory is copied through a buffer of at most 1 MiB a call. The first and last
/// bytes of a write that fill no block go through the page cache. So writes of neighbouring bytes
/// may overlap in time, even within a block.
///
/// Threads: all but moving may be called from several threads at the same time. A write does not
/// reach the disk for good: nothing here survives a power cut.
class DirectFile {
 public:
  /// Offsets, lengths and memory that are multiples of it need no copy.
  static constexpr std::size_t kAlignment = AlignedBytes::kAlignment;

  /// Opens an existing file to read. Throws FileError, also for what is not a regular file.
  [[nodiscard]] static DirectFile open(const std::filesystem::path& path);
  /// Makes a new file of `size_bytes` zeros, mode 0600, to read and write. Reserves its disk space,
  /// if the file system can. Throws FileError: EEXIST if there is a file, ENOSPC if the disk is too
  /// full, … After a failure this leaves no new file.
  [[nodiscard]] static DirectFile create(const std::filesystem::path& path,
                                         std::uint64_t size_bytes);
  DirectFile(DirectFile&& other) noexcept;
  DirectFile& operator=(DirectFile&& other) noexcept;
  ~DirectFile() = default;

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// The size when the file was opened or made.
  [[nodiscard]] std::uint64_t size_bytes() const { return size_bytes_; }
  /// Whether reads and writes go past the page cache. False where the file system refuses, which
  /// some do only at the first read or write. Then they go through the cache.
  [[nodiscard]] bool is_direct() const { return is_direct_; }
  /// The descriptor, to map the file. Reads and writes here agree with a shared mapping of the file
  /// while nobody uses the mapping, not even elsewhere in the file: the system may cache neighbours
  /// as one.
  [[nodiscard]] int descriptor() const { return cached_.get(); }

  /// Reads exactly into.size() bytes from `offset`. Throws FileError, also if the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// Writes all of `bytes` at `offset`. Throws FileError, also if they would end beyond
  /// size_bytes() or the file was cut short meanwhile, and UsageError if the file was opened to read. After a failure an unknown part
  /// of the bytes is written.
  void write(std::uint64_t offset, std::span<const std::byte> bytes) const;

 private:
  enum class Access { read, read_and_write };

  DirectFile(std::filesystem::path path, Descriptor cached, std::uint64_t size_bytes,
             Access access);

  // Each is one way for some bytes to go; "direct" needs aligned offset and memory.
  void read_cached(std::uint64_t offset, std::span<std::byte> into) const;
  void read_direct(std::uint64_t offset, std::span<std::byte> into, std::size_t least) const;
  void read_through_buffer(std::uint64_t offset, std::span<std::byte> into) const;
  void write_cached(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void write_direct(std::uint64_t offset, std::span<const std::byte> bytes) const;
  void write_through_buffer(std::uint64_t offset, std::span<const std::byte> bytes) const;
  [[noreturn]] void refuse_to_read(std::uint64_t offset, std::size_t size) const;
  void require_whole(std::uint64_t offset, std::size_t size) const;

  std::filesystem::path path_;
  Descriptor cached_;
  Descriptor direct_;  // Opened with O_DIRECT; invalid if the file system refused.
  std::uint64_t size_bytes_ = 0;
  Access access_ = Access::read;
  mutable std::atomic<bool> is_direct_ = false;
};

}  // namespace accelerate
