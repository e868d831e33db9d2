// A buffer whose address suits input and output past the page cache.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace accelerate {

/// Owns bytes at an address that is a multiple of kAlignment. Their content is arbitrary at first.
/// Move-only; a moved-from object is empty.
class AlignedBytes {
 public:
  /// The size of a page and of a disk's largest usual block.
  static constexpr std::size_t kAlignment = 4096;

  AlignedBytes() = default;
  /// Throws std::bad_alloc.
  explicit AlignedBytes(std::size_t size_bytes)
      : data_(static_cast<std::byte*>(::operator new(size_bytes, std::align_val_t{kAlignment}))),
        size_(size_bytes) {}
  AlignedBytes(AlignedBytes&& other) noexcept
      : data_(std::move(other.data_)), size_(std::exchange(other.size_, 0)) {}
  AlignedBytes& operator=(AlignedBytes&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }
  ~AlignedBytes() = default;

  [[nodiscard]] std::byte* data() const { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> bytes() const { return {data(), size()}; }

 private:
  struct Free {
    void operator()(std::byte* data) const {
      ::operator delete(data, std::align_val_t{kAlignment});
    }
  };

  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace accelerate
