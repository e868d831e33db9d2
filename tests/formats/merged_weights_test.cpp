#include "accelerate/formats/shards/merged_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/formats/merge_support.h"
#include "tests/formats/safetensors_support.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::add_manifest;
using testing::file_text;
using testing::names_in;
using testing::put_shards;
using testing::specs;
using testing::TemporaryFolder;
using testing::whole_file;
using testing::wholes;
using testing::write_shards;
using Path = std::filesystem::path;
using Names = std::vector<std::string>;

TEST(MergeWeights, GivesTheFileOfAnUnshardedSaveByteForByte) {
  const TemporaryFolder home;
  write_shards(home.path() / "in");
  EXPECT_EQ(names_in(home.path() / "in").size(), 4U);  // One rank has two tiles.
  const auto merged = merge_weights(home.path() / "in", home.path() / "a" / "out");
  EXPECT_EQ(names_in(home.path() / "a" / "out"), Names{"model.safetensors"});
  EXPECT_EQ(file_text(home.path() / "a" / "out" / "model.safetensors"), whole_file());
  EXPECT_EQ(merged.source_files, 4U);
  EXPECT_EQ(merged.written.tensors, specs().size());
}

TEST(MergeWeights, DealsToSeveralFilesAndBack) {
  const TemporaryFolder home;
  write_shards(home.path() / "in");
  merge_weights(home.path() / "in", home.path() / "several", {.max_shard_bytes = 1000});
  EXPECT_EQ(names_in(home.path() / "several"),
            (Names{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                   "model.safetensors.index.json"}));
  merge_weights(home.path() / "several", home.path() / "one");
  EXPECT_EQ(file_text(home.path() / "one" / "model.safetensors"), whole_file());
}

TEST(MergeWeights, MergesTheShardsOfPyTorch) {
  const auto golden = nlohmann::json::parse(testing::read_reference("dcp_shards.json"));
  const TemporaryFolder home;
  std::filesystem::create_directories(home.path() / "in");
  for (const auto& row : golden.at("files")) {
    const auto name = row.at("file").get<std::string>();
    home.write((ShardFileName::parse(name) ? "in/" : "") + name,
               testing::from_hex(row.at("hex").get<std::string>()));
  }
  merge_weights(home.path() / "in", home.path() / "out");
  const auto expected = SafetensorsFile::open(home.path() / "expected.safetensors");
  const auto found = SafetensorsFile::open(home.path() / "out" / "model.safetensors");
  EXPECT_EQ(found.tensors().size(), golden.at("tensors").get<std::size_t>());
  for (const auto& tensor : expected.tensors())
    EXPECT_TRUE(std::ranges::equal(found.at(tensor.name).bytes, tensor.bytes)) << tensor.name;
}

TEST(MergeWeights, TakesOneOfTheModelsOfAState) {
  const TemporaryFolder home;
  write_shards(home.path() / "in", "model");
  write_shards(home.path() / "in", "model_1", 50);
  write_shards(home.path() / "in", "optimizer", 90);
  add_manifest(home.path() / "in");
  merge_weights(home.path() / "in", home.path() / "out", {.model = "model_1"});
  EXPECT_EQ(file_text(home.path() / "out" / "model.safetensors"), whole_file(50));
  merge_weights(home.path() / "in", home.path() / "out", {.model = "model"});
  EXPECT_EQ(file_text(home.path() / "out" / "model.safetensors"), whole_file());
}

// As tools leave them that move a tensor and do not write the other file anew.
TEST(MergeWeights, OfAnIndexedFolderOnlyTheTensorsInTheirOwnFilesCount) {
  const TemporaryFolder home;
  std::filesystem::create_directory(home.path() / "in");
  const TensorSpec a{"a", DType::u8, {3}}, stale{"a", DType::f32, {2}}, b{"b", DType::u8, {4}};
  const auto bytes = testing::counted(8, 1);
  const std::span all(bytes);
  write_safetensors(real_file_system(), home.path() / "in/x.safetensors", {{a, all.first(3)}});
  write_safetensors(real_file_system(), home.path() / "in/y.safetensors",
                    {{stale, all}, {b, all.last(4)}});
  home.write("in/model.safetensors.index.json",
             weight_index_text({.files = {{"a", "x.safetensors"}, {"b", "y.safetensors"}}}));
  EXPECT_EQ(merge_weights(home.path() / "in", home.path() / "out").written.tensors, 2U);
  const auto merged = SafetensorsFile::open(home.path() / "out/model.safetensors");
  EXPECT_EQ(merged.at("a").dtype, DType::u8);
  EXPECT_TRUE(std::ranges::equal(merged.at("a").bytes, all.first(3)));
  EXPECT_TRUE(std::ranges::equal(merged.at("b").bytes, all.last(4)));
}

// A tensor in parts passes through a buffer; one that is far larger than it comes out the same.
TEST(MergeWeights, PassesTensorsThroughASmallBuffer) {
  const TemporaryFolder home;
  write_shards(home.path());
  const auto catalogue = ShardCatalogue::open(shard_files_in(home.path()));
  for (const auto& tensor : catalogue.tensors()) {
    for (const std::size_t buffer : {1U, 8U, 100U, 1000U, 1U << 20}) {
      std::vector<std::byte> bytes;
      ShardCatalogue::stream(
          tensor,
          [&](std::span<const std::byte> piece) {
            EXPECT_TRUE(tensor.whole() || piece.size() <= std::max<std::size_t>(buffer, 8));
            bytes.insert(bytes.end(), piece.begin(), piece.end());
          },
          buffer);
      EXPECT_EQ(bytes, wholes().at(tensor.name)) << tensor.name << " through " << buffer;
    }
  }
}

TEST(MergeWeights, RemovesTheSourceWhenAsked) {
  const TemporaryFolder home;
  write_shards(home.path() / "in");
  add_manifest(home.path() / "in");
  merge_weights(home.path() / "in", home.path() / "out", {.remove_source = true});
  EXPECT_EQ(names_in(home.path()), Names{"out"});
  EXPECT_EQ(file_text(home.path() / "out" / "model.safetensors"), whole_file());
}

TEST(MergeWeights, ALinkToTheSourceIsMergedAndNotRemoved) {
  const TemporaryFolder home;
  write_shards(home.path() / "real" / "in");
  std::filesystem::create_directory_symlink("real/in", home.path() / "link");
  std::filesystem::create_directory_symlink("real", home.path() / "above");
  merge_weights(home.path() / "link", home.path() / "out");
  for (const char* in : {"link", "link/", "link/.", "above/../link"}) {
    EXPECT_THROW(merge_weights(home.path() / in, home.path() / "no", {.remove_source = true}),
                 CheckpointError)
        << in;
  }
  EXPECT_EQ(names_in(home.path() / "real" / "in").size(), 4U);
  EXPECT_EQ(names_in(home.path()), (Names{"above", "link", "out", "real"}));
  merge_weights(home.path() / "above" / "in", home.path() / "out", {.remove_source = true});
  EXPECT_EQ(names_in(home.path() / "real"), Names{});
}

// Whose folders are mount points, say.
class StickyDisk final : public testing::CrashFileSystem {
 public:
  bool remove_tree(const Path& path) override { throw FileError("remove", path, EBUSY); }
};

TEST(MergeWeights, ASourceThatCannotBeRemovedIsSaidWithWhatWasWritten) {
  StickyDisk disk;
  put_shards(disk);
  try {
    merge_weights("/data/in", "/data/out", {.remove_source = true}, disk);
    ADD_FAILURE() << "it was removed";
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "were merged and verified in /data/out",
                        describe(error));
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "cannot remove '/data/in'", describe(error));
  }
  EXPECT_EQ(disk.now().files.at("/data/out/model.safetensors"), whole_file());
}

// --- power cuts ---------------------------------------------------------------------------------

std::size_t crashes_that_lose(const std::optional<std::size_t>& without_sync) {
  testing::CrashFileSystem disk;
  put_shards(disk);
  const auto before = disk.now().files;
  merge_weights("/data/in", "/data/new/out", {.remove_source = true}, disk);
  const auto whole = whole_file();
  std::size_t lost = 0;
  disk.for_each_crash(
      [&](const testing::CrashPoint&, const testing::DiskState& state) {
        const auto out = state.files.find("/data/new/out/model.safetensors");
        const bool kept = std::ranges::all_of(before, [&](const auto& file) {
          const auto found = state.files.find(file.first);
          return found != state.files.end() && found->second == file.second;
        });
        lost += !kept && (out == state.files.end() || out->second != whole) ? 1 : 0;
      },
      {.without_sync = without_sync});
  return lost;
}

TEST(MergeWeights, APowerCutNeverTakesBothTheSourceAndTheOutput) {
  EXPECT_EQ(crashes_that_lose({}), 0U);
  testing::CrashFileSystem disk;
  put_shards(disk);
  merge_weights("/data/in", "/data/new/out", {.remove_source = true}, disk);
  ASSERT_GE(disk.syncs().size(), 4U);  // Two folders' names, the file, its name.
  for (std::size_t sync = 0; sync < disk.syncs().size(); ++sync)
    EXPECT_GT(crashes_that_lose(sync), 0U) << disk.syncs()[sync] << " is not needed";
}

TEST(MergeWeights, AFullDiskAtAnyStepLeavesTheSource) {
  bool returned = false;
  for (std::size_t step = 0; !returned; ++step) {
    ASSERT_LT(step, 100U);
    testing::FaultyFileSystem disk({.fail_at = step});
    put_shards(disk);
    const auto before = disk.visible();
    try {
      merge_weights("/data/in", "/data/out", {}, disk);
      returned = true;
    } catch (const Error&) {
      for (const auto& [path, content] : before) EXPECT_EQ(disk.visible()[path], content) << step;
    }
  }
}

}  // namespace
}  // namespace accelerate
