// A file descriptor that closes itself, and writing all of a text to one.
#pragma once

#include <sys/types.h>

#include <string_view>

namespace accelerate {

/// Owns a file descriptor; -1 owns nothing. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  /// Hands the descriptor over to the caller.
  int release();
  /// Closes now and returns 0 or the errno of close(2). Either way nothing is owned afterwards.
  int close();

 private:
  int fd_ = -1;
};

/// Writes all of `text`, however many calls that takes (short writes, interruptions, and a
/// non-blocking descriptor that is not ready). Returns 0, or the errno of the write that failed.
[[nodiscard]] int write_fully(int fd, std::string_view text) noexcept;

/// Writes all of `text` to a regular file from `offset` on; the descriptor's position does not
/// move. Returns 0, or the errno of the write that failed.
[[nodiscard]] int write_fully_at(int fd, off_t offset, std::string_view text) noexcept;

}  // namespace accelerate
