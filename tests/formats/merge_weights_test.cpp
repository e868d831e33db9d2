#include "accelerate/formats/shards/merge_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "accelerate/formats/manifest.h"
#include "tests/formats/safetensors_support.h"
#include "tests/formats/shard_support.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;
using Path = std::filesystem::path;
using Names = std::vector<std::string>;
using Wholes = std::map<std::string, std::vector<std::byte>>;

std::string file_text(const Path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Names names(const Path& folder) {
  return real_file_system().list(folder);
}

const std::vector<TensorSpec>& specs() {
  static const std::vector<TensorSpec> all = {{"fc.weight", DType::f32, {40, 30}},
                                              {"fc.bias", DType::bf16, {40}},
                                              {"norm.count", DType::i64, {}},
                                              {"none", DType::f32, {0, 3}},
                                              {"tiles", DType::f64, {6, 10}}};
  return all;
}

Wholes wholes(std::size_t first = 0, const std::string& prefix = "") {
  Wholes all;
  for (const auto& spec : specs()) all[prefix + spec.name] = testing::counted(spec, first++);
  return all;
}

// What save_tensors makes of the same tensors.
std::string whole_file(std::size_t first = 0) {
  const TemporaryFolder home;
  const auto all = wholes(first);
  std::vector<StoredTensor> tensors;
  for (const auto& spec : specs()) tensors.push_back({spec, all.at(spec.name)});
  write_safetensors(real_file_system(), home.path() / "x", tensors,
                    {.metadata = {{"format", "pt"}}});
  return file_text(home.path() / "x");
}

// Three ranks: rows of the matrix, the rest on the first two, "tiles" in four.
void write_shards(const Path& folder, const std::string& stem = "model", std::size_t first = 0) {
  std::filesystem::create_directories(folder);
  std::vector<TensorSpec> named = specs();
  const std::string prefix = stem == "model" ? "" : stem + ":";
  for (auto& spec : named) spec.name = prefix + spec.name;
  const auto tiles = named.back();
  named.pop_back();
  auto ranks = deal_to_ranks(named, 3, 200);
  for (int i = 0; i < 4; ++i)
    ranks[i % 3].push_back({tiles, {{i / 2 * 2, i % 2 * 7}, {i / 2 * 2 + 2, i % 2 == 0 ? 7 : 3}}});
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    testing::write_parts(folder, stem, rank, ranks[rank], wholes(first, prefix));
}

void put_shards(testing::CrashFileSystem& disk) {
  const TemporaryFolder home;
  write_shards(home.path());
  for (const auto& name : names(home.path()))
    disk.put("/data/in/" + name, file_text(home.path() / name));
}

void add_manifest(const Path& folder) {
  Manifest manifest{.num_processes = 3, .files = {}};
  for (const auto& name : names(folder))
    manifest.files.push_back(manifest_file(real_file_system(), folder, name));
  write_manifest(real_file_system(), folder, manifest);
}

TEST(MergeWeights, GivesTheFileOfAnUnshardedSaveByteForByte) {
  const TemporaryFolder home;
  write_shards(home.path() / "in");
  EXPECT_EQ(names(home.path() / "in").size(), 4U);  // One rank has two tiles.
  const auto merged = merge_weights(home.path() / "in", home.path() / "a" / "out");
  EXPECT_EQ(names(home.path() / "a" / "out"), Names{"model.safetensors"});
  EXPECT_EQ(file_text(home.path() / "a" / "out" / "model.safetensors"), whole_file());
  EXPECT_EQ(merged.source_files, 4U);
  EXPECT_EQ(merged.written.tensors, specs().size());
}

TEST(MergeWeights, DealsToSeveralFilesAndBack) {
  const TemporaryFolder home;
  write_shards(home.path() / "in");
  merge_weights(home.path() / "in", home.path() / "several", {.max_shard_bytes = 1000});
  EXPECT_EQ(names(home.path() / "several"),
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

// --- what is refused ----------------------------------------------------------------------------

struct Refusal {
  const char* what;
  std::function<void(const Path& folder)> prepare;
  MergeWeightsOptions options;
  const char* says;
};

void touch(const Path& path) {
  std::ofstream(path) << "x";
}

TEST(MergeWeights, WhatItDoesNotMergeIsRefusedAndNothingWritten) {
  const auto state = [](const Path& folder) {
    write_shards(folder);
    add_manifest(folder);
  };
  const Refusal cases[] = {
      {"nothing", [](const Path&) {}, {}, "there is no folder"},
      {"a file", touch, {}, "is a file; what is merged is a folder"},
      {"an empty folder",
       [](const Path& p) { std::filesystem::create_directory(p); },
       {},
       "holds no weights"},
      {"an index of nothing",
       [](const Path& p) {
         std::filesystem::create_directory(p);
         std::ofstream(p / "model.safetensors.index.json") << R"({"weight_map":{}})";
       },
       {},
       "weight_map is empty"},
      {"an index that names another file",
       [](const Path& p) {
         std::filesystem::create_directory(p);
         for (const char* name : {"x.safetensors", "y.safetensors"})
           write_safetensors(real_file_system(), p / name,
                             {{{name, DType::u8, {1}}, testing::as_bytes("1")}});
         std::ofstream(p / "model.safetensors.index.json") << weight_index_text(
             {.files = {{"x.safetensors", "x.safetensors"}, {"y.safetensors", "x.safetensors"}}});
       },
       {},
       "says that 'y.safetensors' is in x.safetensors, which does not have it"},
      {"a folder above the shards",
       [](const Path& p) {
         std::filesystem::create_directories(p / "logs");
         write_shards(p / "sharded");
       },
       {},
       "holds no weights: neither shards (shard-00001-model-…) nor model.safetensors nor its "
       "index. Its subfolder 'sharded' does: merge "},
      {"a link to a folder to be removed",
       [](const Path& p) {
         write_shards(p.parent_path() / "real");
         std::filesystem::create_directory_symlink("real", p);
       },
       {.remove_source = true},
       "in is a symbolic link to "},
      {"pickled shards",
       [](const Path& p) {
         std::filesystem::create_directory(p);
         touch(p / ".metadata");
         touch(p / "__0_0.distcp");
       },
       {},
       "Python pickle, which is never run here. Merge it by the merge-weights of Python"},
      {"a folder of FSDP",
       [](const Path& p) { std::filesystem::create_directories(p / "pytorch_model_fsdp_0"); },
       {},
       "'pytorch_model_fsdp_0': a checkpoint of torch.distributed.checkpoint"},
      {"a file of torch.save",
       [](const Path& p) {
         std::filesystem::create_directory(p);
         touch(p / "pytorch_model.bin");
       },
       {},
       "`accelerate convert` makes safetensors of it"},
      {"two models",
       [](const Path& p) {
         write_shards(p);
         write_shards(p, "model_1");
       },
       {},
       "several models: model, model_1. Name one with --model"},
      {"another model",
       [](const Path& p) { write_shards(p); },
       {.model = "model_2"},
       "no weights of 'model_2'; its models: model"},
      {"shards and a whole file",
       [](const Path& p) {
         write_shards(p);
         touch(p / "model.safetensors");
       },
       {},
       "holds both 'model.safetensors' and 'shard-00001-model-"},
      {"a missing shard of a state",
       [&](const Path& p) {
         state(p);
         std::filesystem::remove(p / "shard-00002-model-00001-of-00001.safetensors");
       },
       {},
       "is damaged: 'shard-00002-model-00001-of-00001.safetensors' is missing"},
      {"a missing shard",
       [](const Path& p) {
         write_shards(p);
         std::filesystem::remove(p / "shard-00003-model-00001-of-00001.safetensors");
       },
       {},
       "of it is in none of the 3 files"},
      {"a changed shard of a state",
       [&](const Path& p) {
         state(p);
         std::fstream file(p / "shard-00002-model-00001-of-00001.safetensors");
         file.seekp(-1, std::ios::end);
         file.put('!');
       },
       {},
       "its checksum is"},
      {"another model in a folder to be removed",
       [](const Path& p) {
         write_shards(p);
         write_shards(p, "model_1");
       },
       {.model = "model", .remove_source = true},
       "also holds model_1, which would be lost"},
      {"notes in a folder to be removed",
       [&](const Path& p) {
         state(p);
         touch(p / "notes.txt");
       },
       {.remove_source = true},
       "holds 'notes.txt', which is no part of what is merged"},
  };
  for (const auto& row : cases) {
    const TemporaryFolder home;
    const Path in = home.path() / "in", out = home.path() / "out";
    row.prepare(in);
    try {
      merge_weights(in, out, row.options);
      ADD_FAILURE() << row.what << " was taken";
    } catch (const CheckpointError& error) {
      EXPECT_NE(describe(error).find(row.says), std::string::npos)
          << row.what << ": " << describe(error);
    }
    EXPECT_FALSE(std::filesystem::exists(out)) << row.what;
  }
}

TEST(MergeWeights, TheOutputLiesOutsideOfTheSource) {
  const TemporaryFolder home;
  write_shards(home.path() / "in");
  for (const char* out : {"in", "in/", "in/deep/er", "in/../in", "./in/x"})
    EXPECT_THROW(merge_weights(home.path() / "in", home.path() / out), UsageError) << out;
  for (const char* out : {"in2", "in/../other", "."})
    EXPECT_NO_THROW(merge_weights(home.path() / "in", home.path() / out)) << out;
}

TEST(MergeWeights, RemovesTheSourceWhenAsked) {
  const TemporaryFolder home;
  write_shards(home.path() / "in");
  add_manifest(home.path() / "in");
  merge_weights(home.path() / "in", home.path() / "out", {.remove_source = true});
  EXPECT_EQ(names(home.path()), Names{"out"});
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
  EXPECT_EQ(names(home.path() / "real" / "in").size(), 4U);
  EXPECT_EQ(names(home.path()), (Names{"above", "link", "out", "real"}));
  merge_weights(home.path() / "above" / "in", home.path() / "out", {.remove_source = true});
  EXPECT_EQ(names(home.path() / "real"), Names{});
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
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "are merged, whole and compared, in /data/out",
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
