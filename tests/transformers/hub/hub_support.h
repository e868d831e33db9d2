// Fixtures of the tests of the hub's cache.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace accelerate {

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace accelerate

namespace accelerate::testing {

/// No variable of the hub is set, and HOME is /home/me.
class HubEnvironment : public ::testing::Test {
 protected:
  ScopedEnv cache_{"HF_HUB_CACHE", nullptr};
  ScopedEnv legacy_{"HUGGINGFACE_HUB_CACHE", nullptr};
  ScopedEnv hub_home_{"HF_HOME", nullptr};
  ScopedEnv xdg_{"XDG_CACHE_HOME", nullptr};
  ScopedEnv home_{"HOME", "/home/me"};
  ScopedEnv offline_{"HF_HUB_OFFLINE", nullptr};
  ScopedEnv transformers_offline_{"TRANSFORMERS_OFFLINE", nullptr};
};

}  // namespace accelerate::testing
