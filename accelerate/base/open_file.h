// Opening a file, or reserving its disk space, with the error that names its path.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_error.h"

namespace accelerate::detail {

/// Opens `path` as open(2) does, with O_CLOEXEC. `mode` is for a file that this makes. Throws
/// FileError "cannot <action> …".
[[nodiscard]] Descriptor open_or_throw(std::string_view action, const std::filesystem::path& path,
                                       int flags, mode_t mode = 0666);

struct OpenedFile {
  Descriptor fd;
  std::size_t size_bytes;
};

/// Opens a regular file to read. Throws FileError for what is not a regular file, and does not wait
/// for a writer when `path` is a FIFO.
[[nodiscard]] OpenedFile open_regular(const std::filesystem::path& path);

/// Returns `bytes` as an offset or size in a file. Throws FileError (EFBIG) if no file is so long.
[[nodiscard]] off_t checked_offset(std::uint64_t bytes, const std::filesystem::path& path);

/// Makes the file at least `size_bytes` long and reserves disk space for it. Only makes it that
/// long where the file system cannot reserve. Throws FileError, for example ENOSPC.
void reserve_space(int fd, const std::filesystem::path& path, std::uint64_t size_bytes);

}  // namespace accelerate::detail
