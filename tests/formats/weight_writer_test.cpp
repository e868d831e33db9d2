// Weights as safetensors files, written from sources in pieces.
#include "accelerate/formats/weights/weight_writer.h"

#include <gtest/gtest.h>

#include "tests/formats/safetensors_support.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::as_bytes;
using testing::as_text;
using testing::TemporaryFolder;
using Names = std::vector<std::string>;

// `text` as a tensor of bytes, handed over in pieces of two.
WeightSource source(const std::string& name, const std::string& text) {
  return {{name, DType::u8, {std::ssize(text)}}, [text](const ByteSink& sink) {
            for (std::size_t i = 0; i < text.size(); i += 2) sink(as_bytes(text.substr(i, 2)));
          }};
}

std::string stored(const std::filesystem::path& file, const std::string& name) {
  const auto weights = SafetensorsFile::open(file);
  return as_text(weights.at(name).bytes);
}

TEST(WeightWriter, WritesWhatItsSourcesHandOverPieceByPiece) {
  const TemporaryFolder home;
  const auto written = write_weights({source("b", "12345"), source("a", "")}, home.path() / "new");
  EXPECT_EQ(written.files, Names{"model.safetensors"});
  EXPECT_EQ(written.tensors, 2U);
  EXPECT_EQ(written.size_bytes, 5U);
  EXPECT_EQ(stored(home.path() / "new/model.safetensors", "b"), "12345");
  EXPECT_EQ(stored(home.path() / "new/model.safetensors", "a"), "");
}

TEST(WeightWriter, DealsOutToShardsWithAnIndexAndRemovesStaleFiles) {
  const TemporaryFolder home;
  home.write("model.safetensors", "of an earlier save");
  home.write("model-00007-of-00009.safetensors", "of an earlier save");
  const auto written = write_weights({source("a", "123"), source("b", "45")}, home.path(),
                                     {.max_shard_bytes = 3, .metadata = {{"k", "v"}}});
  const Names expected = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json"};
  EXPECT_EQ(written.files, expected);
  EXPECT_EQ(real_file_system().list(home.path()), expected);
  EXPECT_EQ(stored(home.path() / expected[1], "b"), "45");
  EXPECT_EQ(SafetensorsFile::open(home.path() / expected[1]).metadata().at("k"), "v");
  EXPECT_EQ(read_weight_index(home.path() / expected[2]).files.at("b"), expected[1]);
}

TEST(WeightWriter, WritesOneFileOfAnyNameAndLeavesItsNeighbours) {
  const TemporaryFolder home;
  home.write("model.safetensors", "a neighbour");
  const auto written = write_weights_file({source("a", "123")}, home.path() / "x/y.safetensors");
  EXPECT_EQ(written.files, Names{"y.safetensors"});
  EXPECT_EQ(stored(home.path() / "x/y.safetensors", "a"), "123");
  EXPECT_EQ(real_file_system().list(home.path()), (Names{"model.safetensors", "x"}));
}

TEST(WeightWriter, ASourceOfAnotherSizeIsAUsageErrorAndLeavesTheOldFiles) {
  for (const std::string given : {"12", "1234"}) {
    const TemporaryFolder home;
    home.write("model.safetensors", "old");
    auto wrong = source("a", given);
    wrong.shape = {3};
    EXPECT_THROW(write_weights({wrong}, home.path()), UsageError) << given;
    EXPECT_EQ(real_file_system().list(home.path()), Names{"model.safetensors"});
    EXPECT_EQ(real_file_system().status(home.path() / "model.safetensors").size_bytes, 3U);
  }
}

TEST(WeightWriter, ASourceThatThrowsLeavesTheOldFiles) {
  const TemporaryFolder home;
  auto failing = source("b", "12");
  failing.stream = [](const ByteSink&) { throw CheckpointError("it vanished"); };
  EXPECT_THROW(write_weights({source("a", "1"), failing}, home.path(), {.max_shard_bytes = 1}),
               CheckpointError);
  EXPECT_EQ(real_file_system().list(home.path()), Names{});
}

TEST(WeightWriter, AFailureLeavesNoEmptyFolderThatItMade) {
  const TemporaryFolder home;
  std::filesystem::create_directory(home.path() / "old");
  auto failing = source("a", "12");
  failing.stream = [](const ByteSink&) { throw CheckpointError("it vanished"); };
  for (const char* out : {"new", "new/", "new/deep/er", "old/new", "new/../other", "old"}) {
    EXPECT_THROW(write_weights({failing}, home.path() / out), CheckpointError) << out;
    EXPECT_THROW(write_weights_file({failing}, home.path() / out / "x.safetensors"),
                 CheckpointError);
    EXPECT_EQ(real_file_system().list(home.path()), Names{"old"}) << out;
    EXPECT_EQ(real_file_system().list(home.path() / "old"), Names{}) << out;
  }
}

TEST(WeightWriter, AFailureLeavesAFolderThatItMadeToWhatElseIsInIt) {
  const TemporaryFolder home;
  auto failing = source("a", "12");
  failing.stream = [&](const ByteSink&) {
    home.write("new/notes", "mine");
    throw CheckpointError("it vanished");
  };
  EXPECT_THROW(write_weights({failing}, home.path() / "new" / "deep"), CheckpointError);
  EXPECT_EQ(real_file_system().list(home.path() / "new"), Names{"notes"});
}

TEST(WeightWriter, ANameTwiceIsAUsageError) {
  const TemporaryFolder home;
  EXPECT_THROW(write_weights({source("a", "1"), source("a", "2")}, home.path()), UsageError);
  EXPECT_THROW(write_weights_file({source("a", "1"), source("a", "2")}, home.path() / "x"),
               UsageError);
}

}  // namespace
}  // namespace accelerate
