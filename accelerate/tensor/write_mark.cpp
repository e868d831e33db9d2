#include "accelerate/tensor/write_mark.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace accelerate::detail {

namespace {

constexpr std::int64_t kValues = 4;
constexpr std::size_t kWidest = sizeof(SampledValues) / kValues;  // Bytes of the widest element.

constexpr std::size_t kSmall = 4096;  // Bytes.

// Four hashes of the words of `bytes`, which a processor computes at once.
SampledValues hash_of(const std::byte* data, std::size_t bytes) {
  std::array<std::uint64_t, 8> lanes{1, 2, 3, 4, bytes, 0, 0, 0};
  constexpr std::uint64_t kPrime = 0x9E3779B185EBCA87U;
  for (std::size_t begin = 0; begin < bytes; begin += 32) {
    std::array<std::uint64_t, 4> words{};
    std::memcpy(words.data(), data + begin, std::min<std::size_t>(32, bytes - begin));
    for (std::size_t i = 0; i < 4; ++i) lanes[i] = (std::rotl(lanes[i], 29) ^ words[i]) * kPrime;
  }
  SampledValues values;
  std::memcpy(values.data(), lanes.data(), sizeof(values));
  return values;
}

}  // namespace

SampledValues sample_values(const at::Tensor& tensor) {
  SampledValues values{};
  if (tensor.numel() == 0) return values;
  // Dense elements may be read in any order. Otherwise only the first element is certain.
  const bool is_dense = tensor.is_non_overlapping_and_dense();
  const auto* first = static_cast<const std::byte*>(tensor.const_data_ptr());
  const auto bytes = static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
  if (is_dense && bytes <= kSmall) return hash_of(first, bytes);
  const auto width = std::min<std::size_t>(tensor.element_size(), kWidest);
  const auto last = is_dense ? static_cast<std::size_t>(tensor.numel() - 1) : 0;
  for (std::size_t i = 0; i < kValues; ++i) {
    const std::size_t element = last * i / (kValues - 1);
    std::memcpy(values.data() + i * kWidest, first + element * tensor.element_size(), width);
  }
  return values;
}

WriteMark::WriteMark(const at::Tensor& tensor, bool reads_values)
    : tensor_(tensor), version_(tensor._version()), reads_values_(reads_values) {
  if (!reads_values_) return;
  if (tensor_.is_cpu()) {
    bytes_ = sample_values(tensor_);
  } else {
    copy_ = copy();
  }
}

bool WriteMark::is_written() const {
  return tensor_._version() != version_ || is_changed();
}

bool WriteMark::is_changed() const {
  if (!reads_values_) return tensor_._version() != version_;
  if (tensor_.is_cpu()) return sample_values(tensor_) != bytes_;
  return tensor_._version() != version_ && !copy().equal(copy_);
}

at::Tensor WriteMark::copy() const {
  const at::NoGradGuard no_grad;
  const at::Tensor values = tensor_.detach().reshape({-1});
  const std::int64_t step = std::max<std::int64_t>(values.numel() / kValues, 1);
  return values.slice(0, 0, step * kValues, step).clone();
}

}  // namespace accelerate::detail
