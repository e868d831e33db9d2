#include "accelerate/base/aligned_bytes.h"

#include <sys/mman.h>

#include <new>

namespace accelerate {

AlignedBytes::AlignedBytes(std::size_t size_bytes) : size_(size_bytes) {
  if (size_ == 0) return;
  void* const data =
      ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(data);
}

AlignedBytes::~AlignedBytes() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace accelerate
