// False for every type: for a static_assert that explains what is wrong with the type.
#pragma once

namespace accelerate::detail {

template <typename...>
inline constexpr bool kNoType = false;

}  // namespace accelerate::detail
