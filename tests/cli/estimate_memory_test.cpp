// `accelerate estimate-memory`: sizes from headers, the original's table, and the formulas.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors.h"
#include "accelerate/formats/weights/weight_index.h"
#include "cli/commands/commands.h"
#include "cli/estimate/training_memory.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;
using testing::message_of;
using testing::TemporaryFolder;

// A file whose tensors are holes: the header alone takes room.
void write_sparse(const fs::path& path, const std::vector<TensorSpec>& specs) {
  const SafetensorsLayout layout(specs);
  std::ofstream(path, std::ios::binary) << layout.header();
  fs::resize_file(path, layout.file_bytes());
}

// The tensors of a decoder with so many layers, with their usual names.
std::vector<TensorSpec> decoder(std::int64_t layers, std::int64_t width, std::int64_t vocabulary,
                                DType dtype = DType::bf16) {
  std::vector<TensorSpec> specs{{"model.embed_tokens.weight", dtype, {vocabulary, width}},
                                {"model.norm.weight", dtype, {width}},
                                {"lm_head.weight", dtype, {vocabulary, width}}};
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    specs.push_back({layer + "self_attn.q_proj.weight", dtype, {width, width}});
    specs.push_back({layer + "mlp.up_proj.weight", dtype, {4 * width, width}});
    specs.push_back({layer + "input_layernorm.weight", dtype, {width}});
  }
  return specs;
}

EstimateMemoryOptions options_for(const fs::path& model) {
  EstimateMemoryOptions options;
  options.model = model.string();
  return options;
}

std::string table_of(const EstimateMemoryOptions& options) {
  std::ostringstream out;
  EXPECT_EQ(run_estimate_memory(options, out), 0);
  return out.str();
}

TEST(ModelSizes, AreOfFloatsInFullPrecision) {
  const TemporaryFolder folder;
  write_sparse(folder.path() / "model.safetensors", decoder(3, 16, 100));
  const ModelSizes sizes = sizes_of(tensors_of_files(folder.path()));
  EXPECT_EQ(sizes.layers, 3U);
  EXPECT_EQ(sizes.width, 16U);
  EXPECT_NE(table_of(options_for(folder.path())).find("(inputs of 3\nlayers, 16 numbers each)"),
            std::string::npos)
      << table_of(options_for(folder.path()));
  const std::uint64_t layer = 5 * 16 * 16 + 16, root = 2 * 1600 + 16;
  EXPECT_EQ(sizes.parameters, 3 * layer + root);
  EXPECT_EQ(sizes.bytes, 4 * (3 * layer + root));
  EXPECT_EQ(sizes.largest_unit, layer);
  EXPECT_EQ(sizes.root, root);
  EXPECT_EQ(sizes.largest_layer_bytes, 4 * 1600U);
  EXPECT_EQ(sizes.largest_layer, "lm_head");
}

TEST(ModelSizes, KeepWholeNumbersAsTheyAre) {
  const TemporaryFolder folder;
  write_sparse(folder.path() / "model.safetensors",
               {{"a.weight", DType::f16, {10}}, {"a.places", DType::i64, {10}}});
  const ModelSizes sizes = sizes_of(tensors_of_files(folder.path()));
  EXPECT_EQ(sizes.parameters, 10U);
  EXPECT_EQ(sizes.bytes, 120U);
  EXPECT_EQ(sizes.largest_layer, "a");
}

TEST(ModelSizes, OfAnIndexAreThoseOfItsShards) {
  const TemporaryFolder folder;
  const auto specs = decoder(4, 8, 50);
  std::vector<ShardItem> items;
  for (const auto& spec : specs) items.push_back({spec.name, *bytes_of(spec.dtype, spec.shape)});
  const auto shards = plan_shards(items, 2000);
  ASSERT_GT(shards.size(), 2U);
  for (const auto& shard : shards) {
    std::vector<TensorSpec> part;
    for (const auto& spec : specs)
      if (std::ranges::count(shard.names, spec.name) > 0) part.push_back(spec);
    write_sparse(folder.path() / shard.file_name, part);
  }
  const fs::path index =
      folder.write("model.safetensors.index.json", weight_index_text(index_of(shards)));
  const auto whole = sizes_of({.source = "", .tensors = [&] {
                                 std::vector<ModelTensor> all;
                                 for (const auto& spec : specs) all.push_back(model_tensor(spec));
                                 return all;
                               }()});
  for (const fs::path& path : {index, folder.path()}) {
    const auto sizes = sizes_of(tensors_of_files(path));
    EXPECT_EQ(sizes.bytes, whole.bytes);
    EXPECT_EQ(sizes.largest_unit, whole.largest_unit);
  }
}

TEST(EstimateMemory, HasTheOriginalsColumns) {
  const TemporaryFolder folder;
  // As many floats as bert-base-cased has, its buffers among them.
  write_sparse(folder.path() / "model.safetensors",
               {{"embeddings.weight", DType::f32, {90669056 / 4}},
                {"rest.0.weight", DType::f32, {(433249280 - 90669056) / 8}},
                {"rest.1.weight", DType::f32, {(433249280 - 90669056) / 8}}});
  // Half of the rest is larger than the embeddings: here they are named the largest by hand.
  const ModelSizes sizes = sizes_of(tensors_of_files(folder.path()));
  EXPECT_EQ(sizes.bytes, 433249280U);
  const std::string table = table_of(options_for(folder.path()));
  for (const char* text : {"Largest Layer", "Total Size", "Training using Adam", "413.18 MB",
                           "1.61 GB", "206.59 MB", "826.36 MB", "103.29 MB", "51.65 MB", "N/A"})
    EXPECT_NE(table.find(text), std::string::npos) << text << "\n" << table;
}

TEST(EstimateMemory, TakesChosenTypesAndNumbers) {
  const TemporaryFolder folder;
  write_sparse(folder.path() / "model.safetensors", decoder(2, 8, 50));
  EstimateMemoryOptions options = options_for(folder.path());
  options.dtypes = {"int8"};
  options.num_processes = {3};
  const std::string table = table_of(options);
  EXPECT_EQ(table.find("float32"), std::string::npos) << table;
  EXPECT_NE(table.find(" 3 "), std::string::npos) << table;
}

// docs/costs.md by hand, for N = 1000, U = 100, R = 50.
TEST(TrainingMemory, FollowsTheFormulas) {
  const ModelSizes sizes{.parameters = 1000, .largest_unit = 100, .root = 50};
  const auto bytes = [&](Division division, int processes, MixedPrecision precision) {
    return training_bytes(sizes, division, processes, precision);
  };
  using enum Division;
  EXPECT_EQ(bytes(replicated, 1, MixedPrecision::no), 16000);
  EXPECT_EQ(bytes(replicated, 8, MixedPrecision::bf16), 18000);
  EXPECT_EQ(bytes(full_shard, 2, MixedPrecision::no), 8000 + 800 + (50 + 300) * 4);
  EXPECT_EQ(bytes(full_shard, 4, MixedPrecision::bf16), 4000 + 400 + 500 + (50 + 300) * 2);
  EXPECT_EQ(bytes(shard_grad_op, 2, MixedPrecision::no), 8000 + 800 + 4000);
  EXPECT_EQ(bytes(shared_pages, 2, MixedPrecision::no), (16000 + 2 * 800) / 2);
  EXPECT_EQ(bytes(shared_pages, 2, MixedPrecision::bf16), (2000 + 16000 + 2 * 400) / 2);
  const double pieces = 12 * 8 * 1024 * 1024;
  EXPECT_EQ(bytes(on_disk, 1, MixedPrecision::no), (50 + 300) * 4 + 300 * 4 + pieces);
  EXPECT_EQ(bytes(on_disk, 4, MixedPrecision::bf16), (50 + 300) * 2 + 300 * 2 + pieces);
  EXPECT_EQ(disk_bytes(sizes, MixedPrecision::no), 16000);
  EXPECT_EQ(disk_bytes(sizes, MixedPrecision::bf16), 18000);
}

TEST(EstimateMemory, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  EXPECT_NE(message_of<ConfigError>([&] {
              (void)tensors_of(folder.path().string(), "");
            }).find("has no model"),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([&] { (void)tensors_of("", ""); }).find("MODEL is empty"),
            std::string::npos);
  EXPECT_NE(message_of<ConfigError>([&] {
              (void)tensors_of("no/such/model", "");
            }).find("neither a file nor a folder nor"),
            std::string::npos);
  folder.write("model.safetensors", "{");
  EXPECT_THROW((void)tensors_of(folder.path().string(), ""), CheckpointError);
}

}  // namespace
}  // namespace accelerate::cli
