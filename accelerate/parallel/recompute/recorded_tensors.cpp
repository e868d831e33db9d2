#include "accelerate/parallel/recompute/recorded_tensors.h"

#include "accelerate/tensor/compat/lent_storage.h"

namespace accelerate::detail {

std::optional<SampledValues> sample_of(const at::Tensor& tensor) {
  const bool is_readable = tensor.is_cpu() && tensor.layout() == at::kStrided &&
                           tensor.has_storage() && !tensor.is_nested() &&
                           !tensor._is_zerotensor() &&
                           compat::LentStorage::owner_of(tensor) == nullptr;
  return is_readable ? std::optional(sample_values(tensor)) : std::nullopt;
}

Geometry Geometry::of(const at::Tensor& tensor) {
  return {.sizes = tensor.sizes().vec(),
          .strides = tensor.strides().vec(),
          .offset = tensor.storage_offset(),
          .dtype = tensor.scalar_type()};
}

at::Tensor Geometry::in(const at::Tensor& tensor) const {
  return tensor.detach().as_strided(sizes, strides, offset);
}

Version::Version(const at::Tensor& tensor)
    : counter_(tensor.unsafeGetTensorImpl()->version_counter()),
      version_(counter_.enabled() ? counter_.current_version() : 0) {}

bool Version::has_changed() const {
  return counter_.enabled() && counter_.current_version() != version_;
}

}  // namespace accelerate::detail
