// A training whose parameters and moments lie in parts on its ranks: what any number of ranks
// saved, cut in whatever way, any other number loads, cut in any other way.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "accelerate/base/error.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/checkpoint/sharded_files.h"
#include "accelerate/checkpoint/state_shards.h"
#include "accelerate/checkpoint/training_state.h"
#include "accelerate/formats/shards/shard_files.h"
#include "accelerate/optim/optimizer_state.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::run_ranks;
using testing::TemporaryFolder;
using Path = std::filesystem::path;

// How ranks hold parameters.
enum class Cut {
  none,      // Every rank has all of them.
  slices,    // All parameters in a row, cut into equal slices: the last ranks may have none.
  replicas,  // As slices, among half the ranks, and again among the other half.
  dealt,     // Each parameter on one rank, whole.
};

const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& shapes() {
  static const std::vector<std::pair<std::string, std::vector<std::int64_t>>> all = {
      {"embedding.weight", {7, 5}},
      {"cube", {3, 2, 5}},
      {"bias", {11}},
      {"scale", {}},
      {"one.weight", {1}},
      {"one", {2}},
      {"nothing", {0, 4}},
      {"head.weight", {5, 3}}};
  return all;
}

std::int64_t all_elements() {
  std::int64_t sum = 0;
  for (const auto& [name, shape] : shapes()) sum += c10::multiply_integers(shape);
  return sum;
}

struct Range {
  std::int64_t begin = 0, numel = 0;
};

// What of the parameter `index`, which begins at `first` in the row of all, `rank` has.
Range range_of(Cut cut, int rank, int ranks, std::size_t index, std::int64_t first) {
  const std::int64_t numel = c10::multiply_integers(shapes()[index].second);
  if (cut == Cut::dealt) return {0, static_cast<int>(index) % ranks == rank ? numel : 0};
  const int groups = cut == Cut::replicas && ranks % 2 == 0 ? 2 : 1;
  const std::int64_t slices = ranks / groups, slice = rank % slices;
  const std::int64_t share = all_elements() / slices + 7;  // So that the last one has less.
  const std::int64_t begin = std::clamp(slice * share - first, std::int64_t{0}, numel);
  const std::int64_t end = std::clamp((slice + 1) * share - first, std::int64_t{0}, numel);
  return {begin, end - begin};
}

// One rank's model, whole or in parts, and its AdamW, with two buffers and a parameter that is
// never cut.
class Training {
 public:
  Training(Cut cut, int rank, int ranks, at::ScalarType dtype) : cut_(cut) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < shapes().size(); ++i) {
      const auto& [name, shape] = shapes()[i];
      const Range range = range_of(cut, rank, ranks, i, first);
      first += c10::multiply_integers(shape);
      // Of the meta device: whoever read or wrote it would fail.
      const auto leaf = at::empty(
          shape, at::TensorOptions(dtype).device(cut == Cut::none ? at::kCPU : at::kMeta));
      view_.parameters.push_back({name, leaf});
      if (cut != Cut::none)
        shards_.push_back({name, at::empty({range.numel}, dtype), range.begin, shape});
      held_.push_back(cut == Cut::none ? leaf : shards_.back().local);
    }
    view_.parameters.push_back({"tied.weight", view_.parameters.front().tensor});
    view_.parameters.push_back({"ignored", at::empty({3}, dtype)});
    held_.push_back(view_.parameters.back().tensor);
    view_.buffers = {{"mean", at::empty({4}, at::kFloat)}, {"count", at::empty({}, at::kLong)}};
    for (auto& parameter : held_) parameter.zero_();
    for (auto& [name, buffer] : view_.buffers) buffer.zero_();
    optimizer_ = std::make_unique<torch::optim::AdamW>(held_, torch::optim::AdamWOptions(0.1));
  }

  // Elements of what this rank has of a tensor of numbers that only depend on `what` and the place.
  at::Tensor part_of(const std::string& what, std::size_t index) const {
    const auto& tensor = held_[index];
    std::vector<std::int64_t> shape = {3};
    if (index < shapes().size()) shape = shapes()[index].second;
    const auto numel = c10::multiply_integers(shape);
    const double seed = static_cast<double>(std::hash<std::string>()(what) % 97 + index);
    const auto whole = (at::arange(numel, at::kDouble) * 0.125 + seed).sin();
    if (cut_ == Cut::none || index >= shapes().size()) return whole.view(shape).to(tensor.dtype());
    return whole.narrow(0, shards_[index].begin, tensor.numel()).to(tensor.dtype());
  }

  // Values and moments as after a training. What they are does not depend on the cut: LibTorch's
  // vectorised steps do, in the last bit.
  void train() {
    for (auto& parameter : held_) parameter.mutable_grad() = at::ones_like(parameter);
    optimizer_->step();
    for (std::size_t i = 0; i < held_.size(); ++i) {
      held_[i].copy_(part_of("weight", i));
      auto& moments = state_of(held_[i]);
      moments.step(7);
      moments.exp_avg().copy_(part_of("first", i));
      moments.exp_avg_sq().copy_(part_of("second", i).square());
    }
    view_.buffers[0].tensor.fill_(0.5);
    view_.buffers[1].tensor.fill_(42);
  }

  TrainingState describe(int rank) {
    TrainingState training;
    ModelPart model{.stem = "model", .view = view_, .shards = shards_};
    if (cut_ != Cut::none) {
      model.update = [this](const std::function<void()>& write) {
        write();
        ++updates;
      };
    }
    training.models.push_back(model);
    ParameterNames names;
    for (std::size_t i = 0; i < held_.size(); ++i)
      names.emplace(held_[i].unsafeGetTensorImpl(),
                    i < shapes().size() ? shapes()[i].first : "ignored");
    auto* optimizer = optimizer_.get();
    training.parts.push_back({.stem = "optimizer",
                              .state_dict = [=] { return optimizer_state_dict(*optimizer, names); },
                              .check =
                                  [=](const StateDict& state) {
                                    return check_optimizer_state_dict(*optimizer, state, names);
                                  },
                              .shards = shards_});
    training.parts.push_back({.stem = "random_states_" + std::to_string(rank),
                              .every_rank = true,
                              .state_dict = []() -> StateDict { return {{"seed", 1}}; },
                              .check = [](const StateDict&) { return CheckedState{[] {}}; }});
    return training;
  }

  // All that this rank has, and the moments of the optimizer.
  std::vector<at::Tensor> tensors() {
    std::vector<at::Tensor> all = held_;
    for (const auto& [name, buffer] : view_.buffers) all.push_back(buffer);
    for (const auto& parameter : held_) {
      if (optimizer_->state().count(parameter.unsafeGetTensorImpl()) == 0) continue;
      auto& moments = state_of(parameter);
      all.push_back(moments.exp_avg());
      all.push_back(moments.exp_avg_sq());
      all.push_back(at::full({}, moments.step()));
    }
    return all;
  }

  int updates = 0;

 private:
  torch::optim::AdamWParamState& state_of(const at::Tensor& parameter) {
    return static_cast<torch::optim::AdamWParamState&>(
        *optimizer_->state().at(parameter.unsafeGetTensorImpl()));
  }

  Cut cut_;
  ModuleView view_;
  std::vector<NamedShard> shards_;
  std::vector<at::Tensor> held_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

void save(const Path& folder, Cut cut, int ranks, at::ScalarType dtype = at::kFloat) {
  run_ranks(ranks, [&](Communicator& group) {
    Training training(cut, group.rank(), ranks, dtype);
    training.train();
    ShardedPlan plan(
        plan_training_state(training.describe(group.rank()), RankFiles::own_and_common));
    plan.agree(group);
    (void)write_planned(real_file_system(), folder, plan.share());
  });
}

Manifest manifest_of(const Path& folder, int ranks) {
  Manifest manifest{.num_processes = ranks, .files = {}};
  for (const auto& name : real_file_system().list(folder))
    manifest.files.push_back(manifest_file(real_file_system(), folder, name));
  return manifest;
}

void load(Training& training, const Path& folder, const Manifest& manifest) {
  auto described = training.describe(0);
  auto checked = read_training_state(real_file_system(), {folder, manifest}, described);
  checked.load_what_may_refuse([](const auto& step) { step(); });
  checked.load_the_rest();
  checked.load_updated();
}

void expect_equal(Training& loaded, Training& trained) {
  const auto there = loaded.tensors(), wanted = trained.tensors();
  ASSERT_EQ(there.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(there[i].scalar_type(), wanted[i].scalar_type()) << i;
    EXPECT_TRUE(at::equal(there[i], wanted[i])) << i << '\n' << there[i] << wanted[i];
  }
}

constexpr Cut kCuts[] = {Cut::none, Cut::slices, Cut::replicas, Cut::dealt};

// Loads as every rank of every number of ranks and every cut.
void expect_loads_everywhere(const Path& folder, int saved_by, at::ScalarType dtype) {
  const auto manifest = manifest_of(folder, saved_by);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    for (const Cut cut : kCuts) {
      for (int rank = 0; rank < ranks; ++rank) {
        SCOPED_TRACE("loaded on " + std::to_string(rank) + " of " + std::to_string(ranks) +
                     ", cut " + std::to_string(static_cast<int>(cut)));
        Training loaded(cut, rank, ranks, dtype), trained(cut, rank, ranks, dtype);
        trained.train();
        load(loaded, folder, manifest);
        expect_equal(loaded, trained);
        EXPECT_EQ(loaded.updates, cut == Cut::none ? 0 : 1);
      }
    }
  }
}

TEST(ShardedTraining, WhatAnyRanksSavedInAnyCutAnyOthersLoadInAnyOther) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (const Cut cut : kCuts) {
        SCOPED_TRACE("saved by " + std::to_string(ranks) + ", cut " +
                     std::to_string(static_cast<int>(cut)));
        const TemporaryFolder home;
        save(home.path(), cut, ranks, dtype);
        expect_loads_everywhere(home.path(), ranks, dtype);
      }
    }
  }
}

TEST(ShardedTraining, AnUnshardedSaveIsLoadedInParts) {
  const TemporaryFolder home;
  Training training(Cut::none, 0, 1, at::kFloat);
  training.train();
  (void)write_planned(real_file_system(), home.path(),
                      plan_training_state(training.describe(0), RankFiles::own_and_common));
  ASSERT_TRUE(std::filesystem::exists(home.path() / "model.safetensors"));
  expect_loads_everywhere(home.path(), 1, at::kFloat);
}

TEST(ShardedTraining, AModelLoadsTheShardsAsWeights) {
  const TemporaryFolder home;
  save(home.path(), Cut::slices, 3);
  Training training(Cut::none, 0, 1, at::kFloat), trained(Cut::none, 0, 1, at::kFloat);
  trained.train();
  load_checkpoint_in_model(training.describe(0).models[0].view, home.path());
  for (std::size_t i = 0; i < shapes().size() + 3; ++i)
    EXPECT_TRUE(at::equal(training.tensors()[i], trained.tensors()[i])) << i;
}

std::map<std::size_t, std::uint64_t> bytes_by_writer(const Path& folder) {
  std::map<std::size_t, std::uint64_t> bytes;
  for (const auto& name : real_file_system().list(folder)) {
    if (const auto shard = ShardFileName::parse(name))
      bytes[shard->writer] += std::filesystem::file_size(folder / name);
  }
  return bytes;
}

TEST(ShardedTraining, ReplicasShareTheWritingAndNoPartIsWrittenTwice) {
  const TemporaryFolder home;
  save(home.path(), Cut::replicas, 4);
  EXPECT_EQ(bytes_by_writer(home.path()).size(), 4U);
  std::int64_t elements = 0;
  const auto catalogue = ShardCatalogue::open(shard_files_in(home.path()));
  for (const auto& tensor : catalogue.tensors()) {
    for (const auto& piece : tensor.pieces) elements += c10::multiply_integers(piece.tile.sizes);
  }
  EXPECT_EQ(elements, all_elements() + 3 + 4 + 1) << "and ignored, mean, count";
}

TEST(ShardedTraining, EachRankWritesItsSlicesAndNoneGathers) {
  const TemporaryFolder home;
  save(home.path(), Cut::dealt, 4);
  const auto catalogue = ShardCatalogue::open(shard_files_in(home.path()));
  const auto& tensor = catalogue.at("head.weight");  // Index 7: of rank 3.
  ASSERT_NE(tensor.whole(), nullptr);
  EXPECT_EQ(catalogue.files()[tensor.whole()->file].path.filename().string().substr(0, 11),
            "shard-00004");
}

// --- what does not fit --------------------------------------------------------------------------

// Nothing of a fresh training has changed.
void expect_refused(const Path& folder, const Manifest& manifest, const std::string& why) {
  Training training(Cut::slices, 1, 2, at::kFloat), fresh(Cut::slices, 1, 2, at::kFloat);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, why,
                      message_of<CheckpointError>([&] { load(training, folder, manifest); }));
  expect_equal(training, fresh);
  EXPECT_EQ(training.updates, 0);
}

// The first shard of `stem` that rank 1 wrote.
std::string shard_of_rank_1(const Path& folder, const std::string& stem) {
  for (const auto& name : real_file_system().list(folder)) {
    const auto shard = ShardFileName::parse(name);
    if (shard && shard->writer == 2 && shard->stem == stem) return name;
  }
  return "";
}

TEST(ShardedTraining, AMissingShardIsNamed) {
  for (const std::string stem : {"model", "optimizer"}) {
    const TemporaryFolder home;
    save(home.path(), Cut::slices, 3);
    const auto manifest = manifest_of(home.path(), 3);
    const auto name = shard_of_rank_1(home.path(), stem);
    ASSERT_TRUE(std::filesystem::remove(home.path() / name));
    expect_refused(home.path(), manifest, name);
    // When the manifest does not know of it either, the hole that it leaves is seen.
    expect_refused(home.path(), manifest_of(home.path(), 3), "a shard is missing");
  }
}

TEST(ShardedTraining, AStateOfAnotherShapeIsRefusedByNameAndChangesNothing) {
  const TemporaryFolder home;
  save(home.path(), Cut::slices, 2);
  for (const auto& name : real_file_system().list(home.path())) {
    const auto shard = ShardFileName::parse(name);
    if (shard && shard->stem == "optimizer") std::filesystem::remove(home.path() / name);
  }
  const auto other = at::zeros({5, 7});  // Not [7, 5].
  (void)write_planned(
      real_file_system(), home.path(),
      plan_shards("optimizer", 0,
                  {{"state.embedding.weight.exp_avg", other, whole_tile({5, 7}), {5, 7}}}));
  expect_refused(home.path(), manifest_of(home.path(), 2), "optimizer");
}

TEST(StateShards, FindTheParameterByTheLongestNameInThePlace) {
  const StateShards shards({{"one", at::empty({2}), 0, {2}},
                            {"one.weight", at::empty({1}), 0, {1}},
                            {"model_1:fc.weight", at::empty({3}), 3, {2, 3}}});
  const std::pair<const char*, const char*> cases[] = {
      {"state.one.exp_avg", "one"},
      {"state.one.weight.exp_avg", "one.weight"},
      {"state.model_1:fc.weight.exp_avg", "model_1:fc.weight"},
      {"state.one.weight.lists.3", "one.weight"},
      {"state.fc.weight.exp_avg", nullptr},
      {"one.weight.exp_avg", nullptr},
      {"param_groups.0.lr", nullptr},
      {"state", nullptr}};
  for (const auto& [place, name] : cases) {
    const NamedShard* found = shards.find(place);
    ASSERT_EQ(found == nullptr, name == nullptr) << place;
    EXPECT_TRUE(found == nullptr || found->name == name) << place;
  }
}

TEST(StateShards, APartThatDoesNotLieAsItsParameterIsAMisuse) {
  const NamedShard shard{"w", at::empty({3}), 2, {2, 3}};
  EXPECT_EQ(tiles_of(shard, "m", at::empty({3})).size(), 2U);
  EXPECT_THROW((void)tiles_of(shard, "m", at::empty({4})), UsageError);
  EXPECT_THROW((void)tiles_of(shard, "m", at::empty({3, 1})), UsageError);
  EXPECT_THROW((void)tiles_of({"w", at::empty({3}), 4, {2, 3}}, "m", at::empty({3})), UsageError);
}

}  // namespace
}  // namespace accelerate
