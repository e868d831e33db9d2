#include "accelerate/tensor/write_mark.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

namespace accelerate::detail {

namespace {

constexpr std::int64_t kValues = 4;
constexpr std::size_t kWidest = sizeof(SampledValues) / kValues;  // Bytes of the widest element.

}  // namespace

SampledValues sample_values(const at::Tensor& tensor) {
  SampledValues values{};
  if (tensor.numel() == 0) return values;
  // Dense elements may be read in any order. Otherwise only the first element is certain.
  const bool is_dense = tensor.is_non_overlapping_and_dense();
  const auto width = std::min<std::size_t>(tensor.element_size(), kWidest);
  const std::int64_t apart = is_dense ? tensor.numel() / kValues : 0;
  const std::size_t step = static_cast<std::size_t>(apart) * width;
  const auto* first = static_cast<const std::byte*>(tensor.const_data_ptr());
  for (std::size_t i = 0; i < kValues; ++i)
    std::memcpy(values.data() + i * kWidest, first + i * step, width);
  return values;
}

WriteMark::WriteMark(const at::Tensor& tensor) : tensor_(tensor), version_(tensor._version()) {
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
