// Tensors as what trackers show: distributions and pictures.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "accelerate/formats/tensorboard/tensorboard_events.h"

namespace accelerate::detail {

/// How the finite elements of `values` (any shape and layout, real dtype, any device) are
/// distributed over TensorBoard's default buckets, ±1e-12 × 1.1^k up to 1e20, as
/// `torch.utils.tensorboard` counts them; nullopt when there are none. Unlike there, NaN and
/// infinities are left out of every field. Cost: a copy to the CPU as float64, and a look into a
/// table for each element.
[[nodiscard]] std::optional<HistogramSummary> summarize(const at::Tensor& values);

/// The pixels of `image` (TrackerImages has the shapes) as a PNG file of 8 bits a channel. Floating
/// point is multiplied by 255, cut to 0 … 255 and truncated; NaN is black. Throws UsageError, which
/// names `name`, for other shapes and dtypes.
[[nodiscard]] PngImage encode_image(const std::string& name, const at::Tensor& image);

}  // namespace accelerate::detail
