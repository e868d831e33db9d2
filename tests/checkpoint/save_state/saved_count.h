// What tests of saves share: an object of the user's with one number, and where programs are told
// to save.
#pragma once

#include <cstdint>

#include "accelerate/accelerate.h"

namespace accelerate::testing {

struct Count {
  std::int64_t value = 0;
  [[nodiscard]] StateDict state_dict() const { return {{"value", value}}; }
  void load_state_dict(const StateDict& state) { value = state.at("value").to<std::int64_t>(); }
};

/// The variable of the environment that names the folder.
inline constexpr const char* kFolder = "ACCELERATE_TEST_FOLDER";

}  // namespace accelerate::testing
