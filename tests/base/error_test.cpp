#include "accelerate/base/error.h"

#include <gtest/gtest.h>

namespace accelerate {
namespace {

TEST(Error, DescribesEveryNestedCauseOutermostFirst) {
  try {
    try {
      throw ConfigError("line 3: unknown key");
    } catch (...) {
      throw_with_context<LaunchError>("cannot load a.yaml");
    }
  } catch (const Error& error) {
    EXPECT_EQ(describe(error), "cannot load a.yaml\n  because: line 3: unknown key");
    EXPECT_EQ(error.kind(), "LaunchError");
  }
}

TEST(Error, StackTracesOfLibTorchAreLeftOut) {
  const std::runtime_error error(
      "sizes differ\nException raised from add at Add.cpp:3\nframe #0: …");
  EXPECT_EQ(describe(error), "sizes differ");
}

TEST(Error, EveryTypeIsCaughtAsError) {
  EXPECT_THROW(throw CommError("x"), Error);
  EXPECT_THROW(throw DataError("x"), Error);
  EXPECT_THROW(throw CheckpointError("x"), Error);
  EXPECT_THROW(throw NetworkError("x"), Error);
  EXPECT_THROW(throw UsageError("x"), Error);
}

}  // namespace
}  // namespace accelerate
