// Turns tensors into what trackers show: distributions and pictures.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "accelerate/formats/tensorboard/tensorboard_events.h"

namespace accelerate::detail {

/// Returns how the finite elements of `values` (any shape and layout, real dtype, any device) are
/// distributed over TensorBoard's default buckets: ±1e-12 × 1.1^k up to 1e20, counted as in
/// `torch.utils.tensorboard`. Returns nullopt if there are none. Unlike in PyTorch, NaN and
/// infinities do not affect any field. Cost: a copy to the CPU as float64, and a table look-up per
/// element.
[[nodiscard]] std::optional<HistogramSummary> summarize(const at::Tensor& values);

/// Returns the pixels of `image` (see TrackerImages for shapes) as a PNG file with 8 bits per
/// channel. Floating-point values are multiplied by 255, clamped to 0 … 255 and truncated; NaN is
/// black. Throws UsageError for other shapes and dtypes; the error names `name`.
[[nodiscard]] PngImage encode_image(const std::string& name, const at::Tensor& image);

}  // namespace accelerate::detail
