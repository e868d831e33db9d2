// The unit of the sizes in these tests.
#pragma once

#include <cstddef>

namespace accelerate::testing {

inline constexpr std::size_t kMiB = std::size_t{1} << 20;

}  // namespace accelerate::testing
