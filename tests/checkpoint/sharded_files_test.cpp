// Shards of LibTorch tensors: by hand, by agreement of ranks, and to and from Python.
#include "accelerate/checkpoint/sharded_files.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <mutex>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::run_ranks;
using testing::TemporaryFolder;
using Path = std::filesystem::path;
using Names = std::vector<std::string>;

Manifest manifest_of(const Path& folder) {
  Manifest manifest;
  for (const auto& name : real_file_system().list(folder))
    manifest.files.push_back(manifest_file(real_file_system(), folder, name));
  return manifest;
}

ShardedTensors opened(const Path& folder, const std::string& stem = "model") {
  return {stem, ShardCatalogue::open(tensor_files(folder, manifest_of(folder), stem))};
}

void write_shards(const Path& folder, int rank, const std::vector<LocalShard>& shards,
                  const std::string& stem = "model") {
  (void)write_planned(real_file_system(), folder, plan_shards(stem, rank, shards));
}

LocalShard cut(const std::string& name, const at::Tensor& whole, const TensorTile& tile) {
  at::Tensor part = whole;
  for (std::size_t d = 0; d < tile.sizes.size(); ++d)
    part = part.narrow(static_cast<std::int64_t>(d), tile.offsets[d], tile.sizes[d]);
  return {name, part, tile, whole.sizes().vec()};
}

at::Tensor numbered(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return at::arange(c10::multiply_integers(shape), at::kFloat).view(shape).to(dtype);
}

// What every sort of sharding leaves: rows, columns, tiles, uneven ones, ranks with nothing.
const std::vector<NamedTensor>& tensors() {
  static const std::vector<NamedTensor> all = {{"rows", numbered({7, 3})},
                                               {"tiles", numbered({6, 10}, at::kBFloat16)},
                                               {"columns", numbered({4, 5}, at::kLong)},
                                               {"flat", numbered({3, 4})},
                                               {"scalar", at::full({}, 2.5)},
                                               {"empty", at::empty({0, 4})}};
  return all;
}

const at::Tensor& tensor(const std::string& name) {
  return std::ranges::find(tensors(), name, &NamedTensor::name)->tensor;
}

// Four ranks, the third with nothing; "flat" is a range of elements, 5 to the end on rank 1.
std::vector<std::vector<LocalShard>> by_hand(const std::string& prefix = "") {
  const auto shard = [&](const std::string& name, const TensorTile& tile) {
    auto made = cut(prefix + name, tensor(name), tile);
    return made;
  };
  return {{shard("rows", {{0, 0}, {4, 3}}), shard("tiles", {{0, 0}, {4, 7}}),
           shard("columns", {{0, 0}, {4, 1}}), shard("flat", {{0, 0}, {1, 4}}),
           shard("flat", {{1, 0}, {1, 1}}), shard("scalar", {{}, {}})},
          {shard("rows", {{4, 0}, {0, 3}}), shard("tiles", {{0, 7}, {4, 3}}),
           shard("columns", {{0, 1}, {4, 4}}), shard("flat", {{1, 1}, {1, 3}}),
           shard("flat", {{2, 0}, {1, 4}})},
          {},
          {shard("rows", {{4, 0}, {3, 3}}), shard("tiles", {{4, 0}, {2, 7}}),
           shard("tiles", {{4, 7}, {2, 3}}), shard("empty", {{0, 0}, {0, 4}})}};
}

void write_by_hand(const Path& folder, const std::string& stem = "model") {
  const auto ranks = by_hand();
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    write_shards(folder, static_cast<int>(rank), ranks[rank], stem);
}

TEST(ShardedFiles, ShardsMadeByHandAreReadWhole) {
  for (const char* stem : {"model", "model_1"}) {
    const TemporaryFolder home;
    write_by_hand(home.path(), stem);
    EXPECT_EQ(real_file_system().list(home.path()).size(), 6U);
    const auto shards = opened(home.path(), stem);
    EXPECT_EQ(shards.outlines().size(), tensors().size());
    for (const auto& [name, whole] : tensors()) {
      EXPECT_TRUE(at::equal(shards.read(name), whole)) << name;
      EXPECT_EQ(shards.read(name).scalar_type(), whole.scalar_type()) << name;
    }
  }
}

TEST(ShardedFiles, ReadInPlaceOnlyWhatLiesWhole) {
  const TemporaryFolder home;
  write_by_hand(home.path());
  const auto shards = opened(home.path());
  EXPECT_EQ(shards.read("scalar").const_data_ptr(), shards.read("scalar").const_data_ptr());
  EXPECT_NE(shards.read("rows").const_data_ptr(), shards.read("rows").const_data_ptr());
  EXPECT_NE(shards.load("scalar").const_data_ptr(), shards.read("scalar").const_data_ptr());
}

TEST(ShardedFiles, AShardOfAnotherShapeThanItsTileIsAMisuse) {
  const auto whole = numbered({4, 4});
  EXPECT_THROW((void)plan_shards("model", 0, {{"w", whole, {{0, 0}, {2, 4}}, {4, 4}}}), UsageError);
  EXPECT_THROW((void)plan_shards("model", 0, {{"w", whole, {{1, 0}, {4, 4}}, {4, 4}}}), UsageError);
  EXPECT_THROW((void)plan_shards("model", 0, {{"w", {}, {{0}, {4}}, {4}}}), CheckpointError);
}

// --- agreement ----------------------------------------------------------------------------------

// Every rank plans this; "local" and the file "own_<rank>" are its own.
std::vector<PlannedFile> planned_on(int rank) {
  return {{.name = "model.safetensors",
           .tensors = {{"big", numbered({1000, 64})},
                       {"local", at::full({5}, rank)},
                       {"turned", numbered({300, 200}).t()},
                       {"small", numbered({3})},
                       {"scalar", at::ones({})}}},
          {.name = "optimizer.json", .text = "{}"},
          {.name = "own_" + std::to_string(rank) + ".safetensors",
           .tensors = {{"mine", at::full({3}, rank)}},
           .one_rank = true},
          {.name = "own_" + std::to_string(rank) + ".json", .text = "1", .one_rank = true},
          {.name = "model_1.safetensors"}};
}

void save_shares(const Path& folder, int n) {
  run_ranks(n, [&](Communicator& ranks) {
    ShardedPlan plan(planned_on(ranks.rank()));
    plan.agree(ranks);
    (void)write_planned(real_file_system(), folder, plan.share());
  });
}

TEST(ShardedPlan, RanksShareWhatTheyHaveAlikeAndRankZeroHasTheRest) {
  for (const int n : {1, 2, 3}) {
    const TemporaryFolder home;
    save_shares(home.path(), n);
    const auto shards = opened(home.path());
    const auto planned = planned_on(0);
    for (const auto& [name, whole] : planned.front().tensors)
      EXPECT_TRUE(at::equal(shards.read(name), whole)) << name << " of " << n;
    std::uintmax_t least = UINTMAX_MAX, most = 0;
    for (const auto& path : tensor_files(home.path(), manifest_of(home.path()), "model")) {
      least = std::min(least, std::filesystem::file_size(path));
      most = std::max(most, std::filesystem::file_size(path));
    }
    EXPECT_LT(most - least, 2000U);
    for (int rank = 0; rank < n; ++rank) {
      const auto own = opened(home.path(), "own_" + std::to_string(rank));
      EXPECT_EQ(own.read("mine")[0].item<float>(), static_cast<float>(rank));
    }
    EXPECT_EQ(tensor_files(home.path(), manifest_of(home.path()), "model_1").size(), 1U);
    EXPECT_TRUE(opened(home.path(), "model_1").outlines().empty());
  }
}

TEST(ShardedPlan, ATensorThatOneRankLacksIsRankZeros) {
  const TemporaryFolder home;
  run_ranks(2, [&](Communicator& ranks) {
    std::vector<NamedTensor> tensors = {{"a", numbered({40'000})}};
    if (ranks.rank() == 0) tensors.push_back({"only on 0", numbered({40'000})});
    if (ranks.rank() == 1) tensors.push_back({"only on 1", numbered({40'000})});
    ShardedPlan plan({{.name = "model.safetensors", .tensors = tensors}});
    plan.agree(ranks);
    (void)write_planned(real_file_system(), home.path(), plan.share());
  });
  const auto outlines = opened(home.path()).outlines();
  ASSERT_EQ(outlines.size(), 2U);
  EXPECT_EQ(outlines[0].name, "a");
  EXPECT_EQ(outlines[1].name, "only on 0");
}

// An element of a pair is two of the file: such tensors are not cut.
TEST(ShardedPlan, PairsOfFourBitsComeBackFromShardsToo) {
  const TemporaryFolder home;
  const auto bytes = at::arange(200'000, at::kLong).to(at::kByte).view({2, 100'000});
  run_ranks(2, [&](Communicator& ranks) {
    ShardedPlan plan(
        {{.name = "model.safetensors", .tensors = {{"pairs", bytes.view(at::kFloat4_e2m1fn_x2)}}}});
    plan.agree(ranks);
    (void)write_planned(real_file_system(), home.path(), plan.share());
  });
  const auto shards = opened(home.path());
  EXPECT_EQ(shards.outlines().at(0).tensor.sizes(), bytes.sizes());
  for (const auto& loaded : {shards.read("pairs"), shards.load("pairs")})
    EXPECT_TRUE(at::equal(loaded.view(at::kByte), bytes));
}

// --- Python -------------------------------------------------------------------------------------

testing::RunResult python(const Names& words) {
  Names all = {testing::reference_python(), testing::reference_path("dcp_live.py").string()};
  all.insert(all.end(), words.begin(), words.end());
  return testing::run_program(
      all, {.env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}});
}

TEST(ShardedFiles, PyTorchLoadsAndConsolidatesOurs) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  const Path folder = home.path() / "shards", expected = home.path() / "expected.safetensors";
  std::filesystem::create_directory(folder);
  write_by_hand(folder);
  write_shards(folder, 0, {cut("rows", numbered({2, 2}), whole_tile({2, 2}))}, "model_1");
  write_shards(folder, 1, {cut("state.rows.step", at::ones({}), {{}, {}})}, "optimizer");
  save_tensors(tensors(), expected);
  const auto read = python({"read", folder.string(), expected.string()});
  EXPECT_EQ(read.out, "6 tensors, 3 consolidated\n") << read.err;
}

struct Holder : torch::nn::Module {
  explicit Holder(const std::vector<NamedTensor>& like) {
    for (const auto& [name, value] : like) register_buffer(name, torch::zeros_like(value));
  }
};

std::string difference(const Holder& net, const std::vector<NamedTensor>& expected) {
  std::string names;
  for (const auto& [name, value] : expected)
    if (!at::equal(net.named_buffers()[name], value)) names += name + " ";
  return names;
}

TEST(ShardedFiles, WeReadWhatPyTorchWritesInPartsAndConsolidated) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  const auto wrote = python({"write", (home.path() / "dcp").string()});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  const auto expected = load_tensors(home.path() / "dcp" / "expected.safetensors");
  ASSERT_EQ(expected.size(), 10U);
  const auto shards = opened(home.path() / "dcp" / "shards");
  EXPECT_EQ(shards.outlines().size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_TRUE(at::equal(shards.read(name), value)) << name;
  merge_weights(home.path() / "dcp" / "shards", home.path() / "merged");
  Holder in_parts(expected), net(expected);
  EXPECT_TRUE(load_checkpoint_in_model(in_parts, home.path() / "dcp" / "shards").fits());
  EXPECT_EQ(difference(in_parts, expected), "");
  EXPECT_TRUE(load_checkpoint_in_model(net, home.path() / "merged").fits());
  EXPECT_EQ(difference(net, expected), "");

  // Consolidated by torch: floating-point tensors only, and the scalar as 0.
  std::vector<NamedTensor> floats;
  for (const auto& item : expected)
    if (at::isFloatingType(item.tensor.scalar_type())) floats.push_back(item);
  Holder of_floats(floats);
  EXPECT_TRUE(load_checkpoint_in_model(of_floats, home.path() / "dcp" / "consolidated").fits());
  EXPECT_EQ(difference(of_floats, floats), "scalar ");
}

}  // namespace
}  // namespace accelerate
