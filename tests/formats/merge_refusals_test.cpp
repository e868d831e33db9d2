// What merge_weights does not merge.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "accelerate/base/error.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "tests/formats/merge_support.h"
#include "tests/formats/safetensors_support.h"

namespace accelerate {
namespace {

using testing::add_manifest;
using testing::TemporaryFolder;
using testing::write_shards;
using Path = std::filesystem::path;

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
       "lists 'y.safetensors' in x.safetensors, but x.safetensors does not contain it"},
      {"a folder above the shards",
       [](const Path& p) {
         std::filesystem::create_directories(p / "logs");
         write_shards(p / "sharded");
       },
       {},
       "holds no weights: neither shards (shard-00001-model-…, pytorch_model_fsdp_0) nor "
       "model.safetensors nor its index. Its subfolder 'sharded' does: merge "},
      {"a link to a folder to be removed",
       [](const Path& p) {
         write_shards(p.parent_path() / "real");
         std::filesystem::create_directory_symlink("real", p);
       },
       {.remove_source = true},
       "in is a symbolic link to "},
      {"a table of contents that is no pickle",
       [](const Path& p) {
         std::filesystem::create_directory(p);
         touch(p / ".metadata");
         touch(p / "__0_0.distcp");
       },
       {},
       ".metadata', the table of contents of a distributed checkpoint: its pickle"},
      {"files of ranks without a table of contents",
       [](const Path& p) {
         std::filesystem::create_directory(p);
         touch(p / "__0_0.distcp");
       },
       {},
       "'__0_0.distcp', and no .metadata that says what lies in it"},
      {"an empty folder of FSDP",
       [](const Path& p) { std::filesystem::create_directories(p / "pytorch_model_fsdp_0"); },
       {},
       "holds no weights: neither shards"},
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
       "holds 'notes.txt', which is not a part of what is merged"},
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

}  // namespace
}  // namespace accelerate
