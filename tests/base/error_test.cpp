#include "accelerate/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "accelerate/base/error_name.h"
#include "accelerate/base/file_error.h"

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

TEST(ErrorName, StandsAtTheEndOfTheMessage) {
  const CommError error("rank 1 is late.", error_name::kRankLate);
  EXPECT_STREQ(error.what(), "rank 1 is late. [accelerate.error/rank-late]");
  EXPECT_EQ(error.name(), "accelerate.error/rank-late");
  EXPECT_EQ(error.situation().text(), error.name());
}

TEST(ErrorName, IsTheTypesIfTheMessageSaysAll) {
  const ConfigError error("'a' is 3; allowed is 4");
  EXPECT_STREQ(error.what(), "'a' is 3; allowed is 4");
  EXPECT_EQ(error.name(), "accelerate.error/config");
  EXPECT_EQ(error.situation().text(), "");
  EXPECT_EQ(FileError("read", "a", "it is a pipe").name(), "accelerate.error/file");
  EXPECT_EQ(Error("x").name(), "accelerate.error/error");
}

TEST(ErrorName, OfEachCauseEndsItsOwnSentence) {
  try {
    try {
      throw CheckpointError("it is empty", error_name::kWeightsDamaged);
    } catch (...) {
      throw_with_context<CheckpointError>("cannot load a", error_name::kNoCheckpoint);
    }
  } catch (const Error& error) {
    const std::string all =
        "cannot load a [accelerate.error/no-checkpoint]\n  because: it is empty "
        "[accelerate.error/weights-damaged]";
    EXPECT_EQ(error.what(), all);
    EXPECT_EQ(describe(error), all);
    EXPECT_EQ(error.name(), "accelerate.error/no-checkpoint");
  }
}

TEST(ErrorName, OfAnErrorThatIsSaidAgainMovesToTheEnd) {
  const CommError inner("rank 1 is late", error_name::kRankLate);
  const CommError outer(std::string(inner.what()) + ". It gave up.", error_name::kRankLate);
  EXPECT_STREQ(outer.what(), "rank 1 is late. It gave up. [accelerate.error/rank-late]");
  EXPECT_EQ(with_name("as it was", {}), "as it was");
}

TEST(ErrorName, APersonsOwnTypesAndNamesAreShownToo) {
  class Mine : public DataError {
   public:
    using DataError::DataError;
    [[nodiscard]] std::string_view kind() const noexcept override { return "BadPixelError"; }
  };
  EXPECT_EQ(Mine("x").name(), "accelerate.error/bad-pixel");
  EXPECT_STREQ(Mine("x", ErrorName("mine/pixels")).what(), "x [mine/pixels]");
}

TEST(ErrorName, OfAFullDiskAndOfTooManyFilesComesFromTheSystem) {
  EXPECT_EQ(FileError("write", "a", ENOSPC).name(), "accelerate.error/disk-full");
  EXPECT_EQ(FileError("write", "a", EDQUOT).name(), "accelerate.error/disk-full");
  EXPECT_EQ(FileError("open", "a", EMFILE).name(), "accelerate.error/too-many-open-files");
  EXPECT_EQ(FileError("open", "a", ENOENT).name(), "accelerate.error/file");
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
