// `accelerate merge-weights` as a user meets it. What it merges is tested in tests/formats.
#include "cli/commands/commands.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/shards/shard_files.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::RunResult;
using testing::TemporaryFolder;
using Path = std::filesystem::path;
using Words = std::vector<std::string>;

Words names(const Path& folder) {
  return real_file_system().list(folder);
}

// Two shards of "w", [4, 100] of bytes, each 200.
void write_shards(const Path& folder) {
  std::filesystem::create_directories(folder);
  const TensorSpec w{"w", DType::u8, {4, 100}}, v{"v", DType::u8, {300}};
  const std::vector<std::byte> half(200, std::byte{7}), all(300, std::byte{8});
  for (std::size_t rank = 0; rank < 2; ++rank) {
    std::vector<TensorPart> parts = {{{w}, {{static_cast<std::int64_t>(2 * rank), 0}, {2, 100}}}};
    if (rank == 1) parts.push_back({{v}, whole_tile(v.shape)});
    const auto shard = plan_shard_files("model", rank, parts).at(0);
    std::vector<StoredTensor> tensors = {{shard.specs[0], half}};
    if (rank == 1) tensors.push_back({shard.specs[1], all});
    write_safetensors(real_file_system(), folder / shard.file_name, tensors,
                      {.metadata = shard.metadata});
  }
}

class MergeCommand : public ::testing::Test {
 protected:
  MergeCommand() { write_shards(home_.path() / "in"); }

  RunResult merge(Words words) {
    words.insert(words.begin(), {testing::accelerate_program(), "merge-weights"});
    return testing::run_program(
        words, {.env = {}, .timeout = std::chrono::seconds(10), .working_directory = home_.path()});
  }

  TemporaryFolder home_;
};

TEST_F(MergeCommand, WritesOneFileAndSaysWhere) {
  const auto result = merge({"in", "out"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "2 tensors, 700.00 B, from 2 files of in\n  out/model.safetensors\n");
  const auto file = SafetensorsFile::open(home_.path() / "out" / "model.safetensors");
  EXPECT_EQ(file.at("w").bytes.size(), 400U);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_FALSE(file.metadata().contains("DCP_SHARDING_INFO"));
  EXPECT_EQ(names(home_.path() / "in").size(), 2U);
}

TEST_F(MergeCommand, FlagsTakeDashesAndUnderscores) {
  for (const char* flag : {"--max_shard_size", "--max-shard-size"}) {
    EXPECT_EQ(merge({"in", "several", flag, "500"}).exit_code, 0);
    EXPECT_EQ(names(home_.path() / "several").size(), 3U) << flag;
  }
  for (const char* flag : {"--remove_checkpoint_dir", "--remove-checkpoint-dir"}) {
    write_shards(home_.path() / "in");
    const auto result = merge({"in", "out", flag});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_NE(result.out.find("removed in\n"), std::string::npos);
    EXPECT_EQ(names(home_.path()), (Words{"out", "several"}));
  }
}

TEST_F(MergeCommand, WritesFilesOfTorchSaveOnDemand) {
  for (const char* flag : {"--unsafe_serialization", "--unsafe-serialization"}) {
    const auto result = merge({"in", "out", flag});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(names(home_.path() / "out"), Words{"pytorch_model.bin"});
  }
}

TEST_F(MergeCommand, RemovesTheFolderThatItRunsIn) {
  const auto result = testing::run_program(
      {testing::accelerate_program(), "merge-weights", ".", "../out", "--remove_checkpoint_dir"},
      {.env = {}, .timeout = std::chrono::seconds(10), .working_directory = home_.path() / "in"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(names(home_.path()), Words{"out"});
  EXPECT_EQ(names(home_.path() / "out"), Words{"model.safetensors"});
}

TEST_F(MergeCommand, BadCallsFailWithTheCureAndLeaveEverything) {
  struct {
    Words words;
    int exit_code;
    const char* says;
  } const cases[] = {
      {{}, 2, "DIR is required"},
      {{"in"}, 2, "OUT is required"},
      {{"in", "out", "more"}, 2, "more"},
      {{"in", "out", "--max_shard_size", "5 lots"}, 2, "'5 lots' is not a shard size"},
      {{"in", "out", "--max_shard_size", "0"}, 2, "'0' is not a shard size"},
      {{"in", "out", "--max_shard_size", "0KB"}, 2, "'0KB' is not a shard size"},
      {{"", "out"}, 2, "DIR is empty"},
      {{"in", ""}, 2, "OUT is empty"},
      {{"in", "out", "--remove"}, 2, "--remove"},
      {{"none", "out"}, 1, "there is no folder none"},
      {{"in", "out", "--model", "model_3"}, 1, "its models: model"},
      {{"in", "in/out"}, 1, "lies in in"},
  };
  for (const auto& row : cases) {
    const auto result = merge(row.words);
    EXPECT_EQ(result.exit_code, row.exit_code) << row.says << ": " << result.err;
    EXPECT_NE(result.err.find(row.says), std::string::npos) << row.says << ": " << result.err;
    EXPECT_EQ(names(home_.path()), Words{"in"}) << row.says;
    EXPECT_EQ(names(home_.path() / "in").size(), 2U) << row.says;
  }
}

TEST_F(MergeCommand, ShowsItsFlags) {
  const auto help = merge({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* flag : {"--max_shard_size", "--model", "--remove_checkpoint_dir"})
    EXPECT_NE(help.out.find(flag), std::string::npos) << flag;
}

TEST_F(MergeCommand, RunsWithoutAProcess) {
  std::ostringstream out;
  EXPECT_EQ(run_merge_weights({home_.path() / "in", home_.path() / "out"}, out), 0);
  EXPECT_NE(out.str().find("2 tensors"), std::string::npos);
}

}  // namespace
}  // namespace accelerate::cli
