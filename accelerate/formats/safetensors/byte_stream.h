// Streams of bytes in pieces, so that the bytes need not be in memory all at once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace accelerate {

/// Takes the next piece. The memory belongs to the caller again when the call returns.
using ByteSink = std::function<void(std::span<const std::byte> piece)>;
/// Hands all bytes to `sink`, in pieces from the first to the last.
using ByteSource = std::function<void(const ByteSink& sink)>;

}  // namespace accelerate
