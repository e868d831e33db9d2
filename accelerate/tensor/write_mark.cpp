#include "accelerate/tensor/write_mark.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>

namespace accelerate::detail {

WriteMark::WriteMark(const at::Tensor& tensor)
    : tensor_(tensor), version_(tensor._version()), bytes_(bytes()) {
  if (!tensor_.is_cpu()) copy_ = copy();
}

bool WriteMark::is_written() const {
  return tensor_._version() != version_ || is_changed();
}

bool WriteMark::is_changed() const {
  if (tensor_.is_cpu()) return bytes() != bytes_;
  return tensor_._version() != version_ && !copy().equal(copy_);
}

WriteMark::Bytes WriteMark::bytes() const {
  Bytes values{};
  if (!tensor_.is_cpu() || tensor_.numel() == 0) return values;
  // Dense elements may be read in any order. Otherwise only the first element is certain.
  const bool is_dense = tensor_.is_non_overlapping_and_dense();
  const auto width = std::min<std::size_t>(tensor_.element_size(), kWidest);
  const std::int64_t apart = is_dense ? tensor_.numel() / kValues : 0;
  const std::size_t step = static_cast<std::size_t>(apart) * width;
  const auto* first = static_cast<const std::byte*>(tensor_.const_data_ptr());
  for (std::size_t i = 0; i < kValues; ++i)
    std::memcpy(values.data() + i * kWidest, first + i * step, width);
  return values;
}

at::Tensor WriteMark::copy() const {
  const at::NoGradGuard no_grad;
  const at::Tensor values = tensor_.detach().reshape({-1});
  const std::int64_t step = std::max<std::int64_t>(values.numel() / kValues, 1);
  return values.slice(0, 0, step * kValues, step).clone();
}

}  // namespace accelerate::detail
