#include "accelerate/formats/shards/shard_catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "accelerate/base/bytes.h"
#include "tests/formats/safetensors_support.h"
#include "tests/formats/shard_support.h"
#include "tests/support/errors.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::counted;
using testing::TemporaryFolder;
using testing::write_parts;
using Path = std::filesystem::path;
using Wholes = std::map<std::string, std::vector<std::byte>>;

// Tensors of every sort, cut into tiles at random, each tile on a random one of the ranks.
struct Cut {
  std::vector<TensorSpec> tensors;
  Wholes wholes;
  std::vector<std::vector<TensorPart>> ranks;
};

std::vector<TensorTile> random_tiles(const TensorSpec& tensor, std::mt19937& random) {
  std::vector<TensorTile> tiles = {whole_tile(tensor.shape)};
  if (tensor.shape.empty()) return tiles;
  for (std::size_t cuts = random() % 6; cuts > 0; --cuts) {
    TensorTile& tile = tiles[random() % tiles.size()];
    const std::size_t d = random() % tensor.shape.size();
    TensorTile upper = tile;
    tile.sizes[d] = static_cast<std::int64_t>(random()) % (tile.sizes[d] + 1);
    upper.offsets[d] += tile.sizes[d];
    upper.sizes[d] -= tile.sizes[d];
    tiles.push_back(upper);
  }
  return tiles;
}

Cut random_cut(std::mt19937& random, std::size_t ranks) {
  Cut cut{.tensors = {{"matrix", DType::f32, {7, 5}},
                      {"bf16", DType::bf16, {6, 3, 4}},
                      {"row", DType::i64, {1, 9}},
                      {"scalar", DType::f64, {}},
                      {"empty", DType::f32, {0, 3}},
                      {"flags", DType::boolean, {17}}},
          .wholes = {},
          .ranks = {}};
  cut.ranks.resize(ranks);
  for (std::size_t k = 0; k < cut.tensors.size(); ++k) {
    const auto& tensor = cut.tensors[k];
    cut.wholes[tensor.name] = counted(tensor, k);
    for (auto& tile : random_tiles(tensor, random))
      cut.ranks[random() % ranks].push_back({{tensor}, tile});
  }
  return cut;
}

ShardCatalogue written(const Path& folder, const Cut& cut) {
  for (std::size_t rank = 0; rank < cut.ranks.size(); ++rank)
    write_parts(folder, "model", rank, cut.ranks[rank], cut.wholes);
  return ShardCatalogue::open(shard_files_in(folder));
}

TEST(ShardCatalogue, ReadsAnySliceOfTensorsThatWereCutAnyhow) {
  std::mt19937 random(11);
  for (int round = 0; round < 40; ++round) {
    const TemporaryFolder home;
    const Cut cut = random_cut(random, 1 + random() % 4);
    const auto catalogue = written(home.path(), cut);
    ASSERT_EQ(catalogue.tensors().size(), cut.tensors.size());
    for (const auto& tensor : cut.tensors) {
      const auto& found = catalogue.at(tensor.name);
      EXPECT_EQ(found.shape, tensor.shape) << tensor.name;
      EXPECT_EQ(testing::read_whole(found), cut.wholes.at(tensor.name)) << tensor.name;
      std::vector<IndexRange> ranges;
      for (const std::int64_t size : tensor.shape) {
        const auto begin = static_cast<std::int64_t>(random()) % (size + 1);
        ranges.push_back({begin, begin + static_cast<std::int64_t>(random()) % (size - begin + 1)});
      }
      const SliceRuns runs(tensor, ranges);
      std::vector<std::byte> expected(runs.total_bytes()), slice(runs.total_bytes());
      read_slice(runs, cut.wholes.at(tensor.name), expected);
      ShardCatalogue::read(found, ranges, slice);
      EXPECT_EQ(slice, expected) << tensor.name << describe_ranges(ranges);
    }
  }
}

TEST(ShardCatalogue, GivesTensorsInOnePieceWhereTheyLie) {
  const TemporaryFolder home;
  const TensorSpec a{"a", DType::f32, {4, 2}}, b{"b", DType::f32, {4, 2}};
  const Wholes wholes = {{"a", counted(a, 1)}, {"b", counted(b, 2)}};
  write_parts(home.path(), "model", 0, {{a, whole_tile(a.shape)}, {b, {{0, 0}, {1, 2}}}}, wholes);
  write_parts(home.path(), "model", 1, {{b, {{1, 0}, {3, 2}}}}, wholes);
  const auto catalogue = ShardCatalogue::open(shard_files_in(home.path()));
  const auto* piece = catalogue.at("a").whole();
  ASSERT_NE(piece, nullptr);
  EXPECT_TRUE(std::ranges::equal(piece->bytes, wholes.at("a")));
  const auto mapped = catalogue.content(*piece)->bytes();
  EXPECT_TRUE(piece->bytes.data() > mapped.data() && piece->bytes.data() < &mapped.back());
  EXPECT_EQ(catalogue.at("b").whole(), nullptr);
}

TEST(ShardCatalogue, TakesFilesWithoutShardingInformationForWholes) {
  const TemporaryFolder home;
  const TensorSpec a{"a", DType::u8, {4}};
  const auto bytes = counted(a, 3);
  write_safetensors(real_file_system(), home.path() / "plain.safetensors", {{a, bytes}});
  const auto catalogue = ShardCatalogue::open({home.path() / "plain.safetensors"});
  EXPECT_EQ(testing::read_whole(catalogue.at("a")), bytes);
}

// Parts that a reader of another format found: here in two files of bare bytes.
class FoundParts : public ::testing::Test {
 protected:
  [[nodiscard]] ::testing::AssertionResult refuses(const std::string& why) const {
    const auto message = testing::message_of<CheckpointError>(
        [this] { (void)ShardCatalogue::assemble(files_, parts_); });
    return (message.find(why) == std::string::npos ? ::testing::AssertionFailure()
                                                   : ::testing::AssertionSuccess())
           << message;
  }

  const TensorSpec spec_{"w", DType::f32, {3, 2}};
  const std::vector<std::byte> bytes_ = counted(spec_, 5);
  TemporaryFolder home_;
  std::vector<ShardFile> files_ = {{"rank0", map("rank0", 0, 12)}, {"rank1", map("rank1", 12, 12)}};
  std::vector<FoundPart> parts_ = {
      {"w", DType::f32, {{{0, 0}, {1, 2}}, 0, files_[0].content->bytes().first(8)}, {{3, 2}}},
      {"w", DType::f32, {{{1, 0}, {1, 1}}, 0, files_[0].content->bytes().last(4)}},
      {"w", DType::f32, {{{1, 1}, {1, 1}}, 1, files_[1].content->bytes().first(4)}},
      {"w", DType::f32, {{{2, 0}, {1, 2}}, 1, files_[1].content->bytes().last(8)}}};

 private:
  std::shared_ptr<const FileContent> map(const char* name, std::size_t begin, std::size_t count) {
    const auto text = detail::byte_text(bytes_).substr(begin, count);
    return real_file_system().map(home_.write(name, std::string(text)));
  }
};

TEST_F(FoundParts, MakeTensors) {
  const auto catalogue = ShardCatalogue::assemble(files_, parts_);
  EXPECT_EQ(testing::read_whole(catalogue.at("w")), bytes_);
  EXPECT_EQ(catalogue.content(catalogue.at("w").pieces.back()), files_[1].content);
}

TEST_F(FoundParts, AreRefusedIfOneIsMissing) {
  parts_.pop_back();
  EXPECT_TRUE(refuses("[2:3, 0:2] of it is in none of the 2 files"));
}

TEST_F(FoundParts, AreRefusedIfTheirBytesAreNotAsManyAsTheirTileNeeds) {
  parts_[1].piece.bytes = parts_[1].piece.bytes.first(3);
  EXPECT_TRUE(refuses("has 3 bytes in 'rank0'"));
}

TEST_F(FoundParts, AreRefusedIfATileIsNegativeOrBeyondTheRange) {
  parts_[3].piece.tile.offsets[0] = -1;
  EXPECT_TRUE(refuses("neither may have negative numbers"));
  parts_[3].piece.tile = {{2, 0}, {-1, -2}};
  EXPECT_TRUE(refuses("neither may have negative numbers"));
  parts_[3].piece.tile = {{INT64_MAX, 0}, {1, 2}};
  EXPECT_TRUE(refuses("ends beyond 2^63"));
}

TEST_F(FoundParts, MustLieInAFileThatIsThere) {
  parts_[0].piece.file = 2;
  EXPECT_THROW((void)ShardCatalogue::assemble(files_, parts_), UsageError);
}

TEST(ShardCatalogue, ReadsTheShardsOfPyTorch) {
  const auto golden = nlohmann::json::parse(testing::read_reference("dcp_shards.json"));
  const TemporaryFolder home;
  std::vector<Path> shards;
  for (const auto& row : golden.at("files")) {
    const auto name = row.at("file").get<std::string>();
    const auto path = home.write(name, testing::from_hex(row.at("hex").get<std::string>()));
    if (ShardFileName::parse(name)) shards.push_back(path);
  }
  EXPECT_EQ(shards.size(), 4U);
  const auto catalogue = ShardCatalogue::open(shards);
  const auto expected = SafetensorsFile::open(home.path() / "expected.safetensors");
  EXPECT_EQ(expected.tensors().size(), golden.at("tensors").get<std::size_t>());
  EXPECT_EQ(catalogue.tensors().size(), expected.tensors().size());
  for (const auto& tensor : expected.tensors()) {
    const auto& found = catalogue.at(tensor.name);
    EXPECT_EQ(found.dtype, tensor.dtype) << tensor.name;
    EXPECT_EQ(found.shape, tensor.shape) << tensor.name;
    EXPECT_TRUE(std::ranges::equal(testing::read_whole(found), tensor.bytes)) << tensor.name;
  }
}

// A file of one f32 tensor 'w' with this metadata, as the text of its header.
std::string shard(const std::string& shape, std::size_t floats, const std::string& metadata,
                  const std::string& dtype = "F32") {
  const nlohmann::json text = metadata;
  const std::string info =
      metadata.empty() ? "" : R"("__metadata__":{"DCP_SHARDING_INFO":)" + text.dump() + "},";
  return testing::safetensors_text("{" + info + R"("w":{"dtype":")" + dtype + R"(","shape":)" +
                                       shape + R"(,"data_offsets":[0,)" +
                                       std::to_string(4 * floats) + "]}}",
                                   4 * floats);
}

std::string at(const std::string& offsets) {
  return R"({"w": {"saved_offsets": )" + offsets + "}}";
}

std::string with_shape(std::string file, const std::string& shape) {
  nlohmann::json header = nlohmann::json::parse(file.substr(8, file.find('\0', 8) - 8));
  header["__metadata__"]["ACCELERATE_SHARDING_INFO"] = R"({"w": {"global_shape": )" + shape + "}}";
  const auto data = file.size() - 8 - file.substr(8, file.find('\0', 8) - 8).size();
  return testing::safetensors_text(header.dump(), data);
}

TEST(ShardCatalogue, WhatDoesNotFitTogetherIsRefusedByName) {
  const std::string top = shard("[2,3]", 6, at("[0, 0]")), bottom = shard("[2,3]", 6, at("[2, 0]"));
  struct {
    const char* what;
    std::vector<std::string> files;
    std::vector<const char*> says;
  } const cases[] = {
      {"an overlap",
       {top, shard("[2,3]", 6, at("[1, 0]"))},
       {"'w'", "overlap", "[0:2, 0:3] in '", "a.safetensors' and [1:3, 0:3] in '",
        "b.safetensors"}},
      {"one twice", {top, top}, {"overlap"}},
      {"two whole ones", {shard("[2]", 2, ""), shard("[2]", 2, "")}, {"'w'", "overlap"}},
      {"two scalars", {shard("[]", 1, at("[]")), shard("[]", 1, at("[]"))}, {"overlap"}},
      {"a hole inside",
       {top, shard("[2,3]", 6, at("[3, 0]"))},
       {"'w'", "[5, 3]", "[2:3, 0:3] of it is in none of the 2 files"}},
      {"a hole at the beginning", {bottom}, {"[0:2, 0:3] of it"}},
      {"a hole in a corner", {top, shard("[2,2]", 4, at("[2, 0]"))}, {"[2:4, 2:3] of it"}},
      {"a hole at the end", {with_shape(top, "[4, 3]")}, {"[4, 3]", "[2:4, 0:3] of it"}},
      {"a part beyond the shape",
       {with_shape(top, "[1, 3]")},
       {"the shape [1, 3]", "a part beyond it: [0:2, 0:3] in '"}},
      {"another number of dimensions of the whole", {with_shape(top, "[6]")}, {"beyond it"}},
      {"two shapes of the whole",
       {with_shape(top, "[4, 3]"), with_shape(bottom, "[5, 3]")},
       {"a part of [4, 3] in '", "and of [5, 3] in '", "different checkpoints?"}},
      {"two dtypes",
       {top, shard("[2,3]", 6, at("[2, 0]"), "I32")},
       {"is F32 in '", "and I32 in '", "b.safetensors'"}},
      {"two numbers of dimensions",
       {top, shard("[6]", 6, at("[2]"))},
       {"2 dimensions in '", "and 1 in '"}},
      {"offsets of another number",
       {shard("[2,3]", 6, at("[0]"))},
       {"1 offsets for its 2 dimensions", "a.safetensors"}},
      {"an end beyond 2^63",
       {shard("[2,3]", 6, at("[9223372036854775807, 0]"))},
       {"ends beyond 2^63"}},
      {"a whole of more than 2^64 bytes",
       {shard("[2,3]", 6, at("[4000000000000000000, 4000000000000000000]"))},
       {"overflows 64 bits"}},
      {"a whole that is huge",
       {shard("[2,3]", 6, at("[1000000000000, 0]"))},
       {"[0:1000000000000, 0:3] of it is in none"}},
      {"no entry",
       {shard("[2,3]", 6, R"({"v": {"saved_offsets": [0, 0]}})")},
       {"'w' has no entry in the DCP_SHARDING_INFO of '"}},
      {"no JSON",
       {shard("[2,3]", 6, "{\"w\": ")},
       {"DCP_SHARDING_INFO is not valid JSON at its byte"}},
      {"a list", {shard("[2,3]", 6, "[]")}, {"must be a JSON object, found a list"}},
      {"a number for an entry", {shard("[2,3]", 6, R"({"w": 3})")}, {"must be an object, found 3"}},
      {"no offsets", {shard("[2,3]", 6, R"({"w": {}})")}, {"'w' lacks saved_offsets"}},
      {"offsets that are text",
       {shard("[2,3]", 6, at("\"0\""))},
       {"must be a list of whole numbers from 0 on, found the string '0'"}},
      {"a negative offset", {shard("[2,3]", 6, at("[-1, 0]"))}, {"found -1"}},
      {"half an offset", {shard("[2,3]", 6, at("[0.5, 0]"))}, {"found '0.5'"}},
      {"an offset of 2^63", {shard("[2,3]", 6, at("[9223372036854775808, 0]"))}, {"2^63-1"}},
      {"an offset of 2^64", {shard("[2,3]", 6, at("[18446744073709551616, 0]"))}, {"found '18446"}},
      {"a list in the list", {shard("[2,3]", 6, at("[[0], 0]"))}, {"found a list"}},
      {"33 dimensions",
       {shard("[2,3]", 6,
              at("[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]"))},
       {"beyond the 32 dimensions"}},
      {"a name twice",
       {shard("[2,3]", 6, R"({"w": {"saved_offsets": [0,0]}, "w": {"saved_offsets": [2,0]}})")},
       {"has tensor 'w' twice"}},
      {"offsets twice",
       {shard("[2,3]", 6, R"({"w": {"saved_offsets": [0,0], "saved_offsets": [2,0]}})")},
       {"saved_offsets appears twice"}},
  };
  for (const auto& row : cases) {
    const TemporaryFolder home;
    std::vector<Path> paths;
    for (const auto& text : row.files)
      paths.push_back(
          home.write(std::string(1, static_cast<char>('a' + paths.size())) + ".safetensors", text));
    try {
      (void)ShardCatalogue::open(paths);
      ADD_FAILURE() << row.what << " was taken";
    } catch (const CheckpointError& error) {
      for (const char* part : row.says)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << row.what << ": " << error.what() << "\n  lacks: " << part;
    }
  }
}

TEST(ShardCatalogue, PassesOverWhatOthersMayAddToAnEntry) {
  const TemporaryFolder home;
  const auto path = home.write(
      "a.safetensors",
      shard(
          "[2,3]", 6,
          R"({"w": {"more": [{"x": [1, {"y": null}]}], "saved_offsets": [0, 0], "z": -1.5}, "gone": {"saved_offsets": []}})"));
  EXPECT_EQ(ShardCatalogue::open({path}).at("w").shape, (std::vector<std::int64_t>{2, 3}));
}

TEST(ShardCatalogue, RefusesNewerVersionsAndMissingFiles) {
  const TemporaryFolder home;
  auto text = shard("[2,3]", 6, at("[0, 0]"));
  nlohmann::json header = nlohmann::json::parse(text.substr(8, text.find('\0', 8) - 8));
  for (const char* version : {"2.0", "", "one", "0.9", "nan"}) {
    header["__metadata__"]["DCP_VERSION"] = version;
    const auto path = home.write("new.safetensors", testing::safetensors_text(header.dump(), 24));
    EXPECT_THROW((void)ShardCatalogue::open({path}), CheckpointError) << version;
  }
  EXPECT_THROW((void)ShardCatalogue::open({home.path() / "none.safetensors"}), CheckpointError);
  EXPECT_THROW((void)ShardCatalogue::open(std::vector<Path>(20'000, "x")), CheckpointError);
}

TEST(ShardCatalogue, AnUnknownNameIsAnErrorWithTheNearest) {
  const TemporaryFolder home;
  const auto catalogue =
      ShardCatalogue::open({home.write("a.safetensors", shard("[2,3]", 6, at("[0, 0]")))});
  EXPECT_EQ(catalogue.find("v"), nullptr);
  EXPECT_THROW((void)catalogue.at("v"), CheckpointError);
  std::vector<std::byte> room(23);
  EXPECT_THROW(ShardCatalogue::read(catalogue.at("w"), {}, room), UsageError);
}

}  // namespace
}  // namespace accelerate
