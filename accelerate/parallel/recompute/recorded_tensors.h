// What a record knows of tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "accelerate/tensor/write_mark.h"

namespace accelerate::detail {

class UnitRecord;

/// Returns some values of `tensor` if they can be read at once: on a CPU, in memory that no engine
/// lends. Lent memory may be absent, and has the same values whenever it is there.
[[nodiscard]] std::optional<SampledValues> sample_of(const at::Tensor& tensor);

/// How a tensor lies in its storage.
struct Geometry {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  at::ScalarType dtype = at::kFloat;

  [[nodiscard]] static Geometry of(const at::Tensor& tensor);
  /// Returns this part of the memory of `tensor`, without its graph.
  [[nodiscard]] at::Tensor in(const at::Tensor& tensor) const;
};

/// How often a tensor, and what shares its memory, had been written. LibTorch counts that.
class Version {
 public:
  Version() = default;
  explicit Version(const at::Tensor& tensor);
  /// Whether the tensor was written since. Nanoseconds.
  [[nodiscard]] bool has_changed() const;

 private:
  c10::VariableVersion counter_;
  std::uint32_t version_ = 0;
};

/// A tensor that autograd saved in a unit and that comes back in backward.
struct DroppedTensor {
  enum class Source : std::uint8_t {
    saved,     ///< What autograd saves in a call, by number.
    result,    ///< It lies in the memory of a result of a call.
    external,  ///< It lies in the memory of a tensor from outside, which was moved away.
  };

  std::shared_ptr<UnitRecord> record{};
  Source source = Source::saved;
  std::size_t call = 0;  ///< The call that makes it; unused for `external`.
  std::size_t place =
      0;  ///< The number of the saved tensor, the result, or the tensor from outside.
  Geometry geometry{};
  std::optional<SampledValues> sample{};  ///< Of the values of a `result` on a CPU.
  at::Tensor value{};                     ///< Defined when it has been computed again.
};

}  // namespace accelerate::detail
