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

TEST(Error, WhatTellsTheCausesOnceHoweverDeepTheyLie) {
  try {
    try {
      try {
        throw std::runtime_error("no space left\nException raised from write at File.cpp:3");
      } catch (...) {
        throw_with_context<CheckpointError>("model.safetensors could not be written");
      }
    } catch (...) {
      throw_with_context<CheckpointError>("the checkpoint was not saved");
    }
  } catch (const std::exception& error) {
    const std::string all =
        "the checkpoint was not saved\n  because: model.safetensors could not be written\n  "
        "because: "
        "no space left";
    EXPECT_EQ(error.what(), all);
    EXPECT_EQ(describe(error), all);
  }
}

TEST(Error, DescribesTheCausesOfErrorsThatTellOnlyTheirOwnSentence) {
  try {
    try {
      throw 3;
    } catch (...) {
      std::throw_with_nested(std::runtime_error("the program of a user failed"));
    }
  } catch (const std::exception& error) {
    EXPECT_EQ(describe(error),
              "the program of a user failed\n  because: an exception that is not a std::exception");
  }
}

TEST(Error, StackTracesOfLibTorchAreLeftOut) {
  const std::runtime_error error(
      "sizes differ\nException raised from add at Add.cpp:3\nframe #0: …");
  EXPECT_EQ(describe(error), "sizes differ");
}

TEST(Error, AMessageDoesNotSteerATerminal) {
  try {
    try {
      throw DataError("the key 'a\x1b[2J\u202e' is unknown");
    } catch (const Error&) {
      throw_with_context<ConfigError>("cannot read \u2066");
    }
  } catch (const Error& error) {
    const std::string shown = "cannot read ?\n  because: the key 'a?[2J?' is unknown";
    EXPECT_EQ(describe(error), shown);
    EXPECT_EQ(error.what(), shown);
  }
}

TEST(Error, AForeignCauseDoesNotSteerATerminal) {
  try {
    try {
      throw std::runtime_error("the file holds \x1b[2J\xff");
    } catch (...) {
      throw_with_context<ConfigError>("cannot read a.yaml");
    }
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "cannot read a.yaml\n  because: the file holds ?[2J?");
  }
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
