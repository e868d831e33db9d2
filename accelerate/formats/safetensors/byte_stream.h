// Bytes that pass from one to another in pieces, so that they need not be in memory all at once.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace accelerate {

/// Takes the next piece of some bytes, which is the caller's again when it returns.
using ByteSink = std::function<void(std::span<const std::byte> piece)>;
/// Hands all of some bytes to `sink`, in pieces from the first to the last.
using ByteSource = std::function<void(const ByteSink& sink)>;

}  // namespace accelerate
