// What is done to gradients of which each rank has a part: clipping, and scaling of fp16.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/parallel/model_parts.h"
#include "tests/parallel/sharded/sharded_places.h"

namespace accelerate {
namespace {

using testing::ShardedNet;
using testing::ShardedPlace;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Clipping {
  std::optional<double> norm_type;  // None: by value.
  double bound = 0;                 // Less than what is found.
  bool has_nan = false;             // In the second of two or three parts.
};
void PrintTo(const Clipping& how, std::ostream* out) {
  *out << (how.norm_type ? "norm " + std::to_string(*how.norm_type) : "value")
       << (how.has_nan ? " with a NaN" : "");
}

std::vector<Clipping> clippings() {
  std::vector<Clipping> all{
      {1.0, 0.1},         {2.0, 0.01},         {3.0, 0.01},          {0.0, 10},
      {kInfinity, 0.001}, {-kInfinity, 1e-12}, {std::nullopt, 0.001}};
  for (std::size_t i = all.size(); i-- > 0;) {
    all.push_back(all[i]);
    all.back().has_nan = true;
  }
  return all;
}

struct Clipped {
  double norm = 0;
  std::map<std::string, std::pair<std::int64_t, at::Tensor>> gradients;  // Begin, and elements.
};

// Leaves themselves, or what a rank has of them.
std::vector<NamedShard> parts_of(const ShardedNet& net, const Prepared<ShardedNet>& model) {
  std::vector<NamedShard> parts;
  for (const auto& item : net->named_parameters()) {
    const auto* part = model.core()->parallel().parts->shard_of(item.value());
    parts.push_back(
        part ? *part
             : NamedShard{.name = item.key(), .local = item.value(), .begin = 0, .shape = {}});
  }
  return parts;
}

double clip(Accelerator& accelerator, const std::vector<at::Tensor>& leaves, const Clipping& how) {
  if (how.norm_type)
    return accelerator.clip_grad_norm_(leaves, how.bound, *how.norm_type).item<double>();
  accelerator.clip_grad_value_(leaves, how.bound);
  return kInfinity;
}

// After one backward of a net with a frozen layer.
Clipped backward_and_clip(const std::shared_ptr<Communicator>& comm,
                          const std::optional<FullyShardedDataParallelPlugin>& plugin,
                          const Clipping& how) {
  Accelerator accelerator({.fsdp_plugin = plugin, .communicator = comm});
  ShardedNet net(testing::ShardedNetOptions{.frozen = true});
  net->to(at::kDouble);
  auto model = accelerator.prepare(net);
  const auto x = testing::rows_of(0, *comm);
  accelerator.backward((model(x, false) - x.flip(1)).square().mean());
  const auto parts = parts_of(net, model);
  for (const auto& part : parts) {
    const bool begins = part.begin == 0 && part.local.numel() > 0;
    if (how.has_nan && begins && part.name == "block2.down.weight")
      part.local.grad().view({-1}).narrow(0, 0, 1).fill_(NAN);
  }
  Clipped clipped{clip(accelerator, model.parameters(), how), {}};
  for (const auto& part : parts) {
    if (!part.local.grad().defined()) continue;
    clipped.gradients[part.name] = {part.begin, part.local.grad().flatten().clone()};
  }
  return clipped;
}

void expect_parts(const Clipped& found, const Clipped& expected) {
  const bool is_nan = std::isnan(expected.norm);
  EXPECT_EQ(std::isnan(found.norm), is_nan);
  if (!is_nan && std::isfinite(expected.norm)) {
    EXPECT_NEAR(found.norm, expected.norm, 1e-12 * expected.norm);
  }
  for (const auto& [name, part] : found.gradients) {
    const auto& [begin, elements] = part;
    const auto& whole = expected.gradients.at(name).second;
    if (elements.numel() == 0) continue;
    EXPECT_TRUE(at::allclose(elements, whole.narrow(0, begin, elements.numel()), 1e-11, 1e-16,
                             /*equal_nan=*/true))
        << name;
  }
}

class ShardedGradients : public ::testing::TestWithParam<ShardedPlace> {};

TEST_P(ShardedGradients, AreClippedByTheNumbersOfOneProcess) {
  const auto all = clippings();
  std::vector<Clipped> expected;
  for (const auto& how : all) {
    expected.push_back(backward_and_clip(single_communicator(), std::nullopt, how));
    EXPECT_TRUE(how.has_nan || expected.back().norm > how.bound) << "clips nothing";
  }
  for (const int ranks : {2, 3}) {
    testing::run_ranks_at(GetParam(), ranks, [&](const std::shared_ptr<Communicator>& comm) {
      for (std::size_t i = 0; i < all.size(); ++i) {
        SCOPED_TRACE(::testing::PrintToString(all[i]) + " on rank " + std::to_string(comm->rank()) +
                     " of " + std::to_string(ranks));
        expect_parts(backward_and_clip(comm, plugin_of(GetParam()), all[i]), expected[i]);
      }
    });
  }
}

// A layer whose gradient is its input times the scale: each rank has one half of it.
struct ScaledRank {
  ScaledRank(const std::shared_ptr<Communicator>& comm, FullParametersHome home)
      : accelerator({.mixed_precision = MixedPrecision::fp16,
                     .grad_scaler = {.init_scale = 1024},
                     .fsdp_plugin = FullyShardedDataParallelPlugin{.full_parameters = home},
                     .communicator = comm}) {}

  void backward(double last_input) {
    auto x = torch::full({1, 128}, 1e-3);
    x[0][127] = last_input;
    accelerator.backward(model(x).sum());
  }
  [[nodiscard]] at::Tensor part() const { return model.local_parameters().front(); }

  Accelerator accelerator;
  torch::nn::Linear layer{torch::nn::LinearOptions(128, 1).bias(false)};
  torch::optim::SGD sgd{layer->parameters(), 0.1};
  Prepared<torch::nn::Linear> model = accelerator.prepare(layer);
  AcceleratedOptimizer optimizer = accelerator.prepare(sgd);
};

TEST_P(ShardedGradients, ThatOverflowInTheSliceOfOneRankAreSkippedByAll) {
  testing::run_ranks_at(GetParam(), 2, [](const std::shared_ptr<Communicator>& comm) {
    ScaledRank rank(comm, GetParam().home);
    const auto before = rank.part().detach().clone();
    rank.backward(100);  // Times 1024 is no number of fp16.
    EXPECT_EQ(rank.part().grad().isfinite().all().item<bool>(), comm->rank() == 0);
    rank.optimizer.step();
    EXPECT_TRUE(rank.optimizer.step_was_skipped());
    EXPECT_EQ(rank.accelerator.scaler()->get_scale(), 512);
    EXPECT_TRUE(at::equal(rank.part(), before));
    rank.optimizer.zero_grad();
    rank.backward(1);
    rank.optimizer.step();
    EXPECT_FALSE(rank.optimizer.step_was_skipped());
    EXPECT_FALSE(at::equal(rank.part(), before));
  });
}

INSTANTIATE_TEST_SUITE_P(Places, ShardedGradients, testing::sharded_places(),
                         testing::kNameOfPlace);

}  // namespace
}  // namespace accelerate
