// A buffer whose address suits input and output past the page cache.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace accelerate {

/// Owns bytes at an address that is a multiple of kAlignment. Their content is arbitrary at first.
/// The pages are the system's own, outside of the heap: they go back to it at once, and leave no
/// holes among small allocations. Move-only; a moved-from object is empty.
class AlignedBytes {
 public:
  /// The size of a page and of a disk's largest usual block.
  static constexpr std::size_t kAlignment = 4096;

  AlignedBytes() = default;
  /// Throws std::bad_alloc.
  explicit AlignedBytes(std::size_t size_bytes);
  AlignedBytes(AlignedBytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  AlignedBytes& operator=(AlignedBytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~AlignedBytes();

  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size()}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace accelerate
