// Muon, which needs whole matrices, over the parts that ranks have: every bit is that of a training
// on one process. The gradients are the same on all ranks, and exact, so that nothing else rounds.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/optim/algorithms/muon.h"
#include "tests/parallel/sharded/sharded_places.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::message_of;
using testing::run_ranks_shared;
using testing::ShardedPlace;
using Leaves = std::vector<at::Tensor>;

struct MatrixLayerImpl : torch::nn::Module {
  MatrixLayerImpl(std::int64_t rows, std::int64_t columns) {
    weight = register_parameter("weight", torch::empty({rows, columns}));
    bias = register_parameter("bias", torch::empty({columns}));
  }
  at::Tensor forward(const at::Tensor& factors, const at::Tensor& bias_factors) {
    return (weight * factors).sum() + (bias * bias_factors).sum();
  }
  at::Tensor weight, bias;
};
TORCH_MODULE(MatrixLayer);

// The numbers of a gradient, which are exact in bf16, as are their sums over ranks.
at::Tensor numbers(at::IntArrayRef shape, std::int64_t seed, at::ScalarType dtype = at::kFloat) {
  const auto k = torch::arange(c10::multiply_integers(shape), at::kLong);
  return (((k * 7919 + seed * 104729).remainder(81) - 40).to(at::kDouble) / 64)
      .view(shape)
      .to(dtype);
}

// A unit for each layer. Its output is a sum whose gradients are given numbers. Every third step
// leaves a layer out.
struct MatrixNetImpl : torch::nn::Module {
  MatrixNetImpl() {
    const torch::NoGradGuard no_grad;
    for (const auto& [rows, columns] : std::vector<std::pair<int, int>>{
             {7, 5}, {33, 20}, {1, 9}, {40, 64}, {64, 40}, {12, 12}, {130, 3}}) {
      layers->push_back(
          register_module("layer" + std::to_string(layers->size()), MatrixLayer(rows, columns)));
    }
    extra = register_parameter("extra", torch::empty({19, 21}));
    std::int64_t seed = 0;
    for (auto& leaf : parameters()) leaf.copy_(numbers(leaf.sizes(), ++seed) * 3);
  }
  at::Tensor forward(int step) {
    const auto of = [step](const at::Tensor& leaf, std::int64_t index) {
      return numbers(leaf.sizes(), 100 * step + index, leaf.scalar_type());
    };
    auto sum = (extra * of(extra, 99)).sum().to(at::kFloat);
    for (std::size_t i = 0; i < layers->size(); ++i) {
      if (i == 1 && step % 3 == 2) continue;
      auto& layer = layers->at(i);
      const auto index = static_cast<std::int64_t>(2 * i);
      sum = sum + layer(of(layer->weight, index), of(layer->bias, index + 1));
    }
    return sum;
  }
  [[nodiscard]] Leaves with_dimensions(bool two) const {
    Leaves found;
    for (const auto& leaf : parameters())
      if ((leaf.dim() == 2) == two) found.push_back(leaf);
    return found;
  }

  std::shared_ptr<std::vector<MatrixLayer>> layers = std::make_shared<std::vector<MatrixLayer>>();
  at::Tensor extra;
};
TORCH_MODULE(MatrixNet);

struct MatrixTrainingOptions {
  std::optional<ShardingStrategy> strategy{};  // None: whole.
  FullParametersHome home = FullParametersHome::gathered;
  MixedPrecision precision = MixedPrecision::no;
  at::ScalarType dtype = at::kFloat;
  int steps_before = 0;  // Before prepare().
};

AcceleratorOptions accelerator_options(const MatrixTrainingOptions& options,
                                       const std::shared_ptr<Communicator>& ranks) {
  AcceleratorOptions all{.mixed_precision = options.precision, .communicator = ranks};
  if (!options.strategy) return all;
  FullyShardedDataParallelPlugin plugin;
  plugin.auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
  plugin.transformer_cls_names_to_wrap = {{"MatrixLayer"}};
  plugin.sharding_strategy = options.strategy;
  plugin.full_parameters = options.home;
  if (options.strategy == ShardingStrategy::HYBRID_SHARD) plugin.shard_group_size = 2;
  all.fsdp_plugin = plugin;
  return all;
}

// Muon for the matrices, AdamW for the rest.
struct MatrixTraining {
  MatrixTraining(const MatrixTrainingOptions& options, const std::shared_ptr<Communicator>& ranks)
      : accelerator(accelerator_options(options, ranks)) {
    net->to(options.dtype);
    muon = std::make_unique<Muon>(net->with_dimensions(true), MuonOptions(0.02));
    adamw = std::make_unique<torch::optim::AdamW>(
        net->with_dimensions(false),
        torch::optim::AdamWOptions(0.01).eps(1e-3));  // The usual eps is 0 in fp16.
    for (int step = 0; step < options.steps_before; ++step) {
      net(step).backward();
      muon->step();
      adamw->step();
      for (auto& leaf : net->parameters()) leaf.mutable_grad() = at::Tensor();
    }
    std::tie(model, optimizer, others) = accelerator.prepare(net, *muon, *adamw);
  }

  void steps(int begin, int end) {
    for (int step = begin; step < end; ++step) {
      accelerator.backward((*model)(step));
      optimizer->step();
      others->step();
      optimizer->zero_grad();
      others->zero_grad();
    }
  }

  Leaves weights() {
    const auto summoned = model->summon_full_params({.writeback = false});
    Leaves all;
    for (const auto& leaf : net->parameters()) all.push_back(leaf.detach().clone());
    return all;
  }

  Accelerator accelerator;
  MatrixNet net;
  std::unique_ptr<Muon> muon;
  std::unique_ptr<torch::optim::AdamW> adamw;
  std::optional<Prepared<MatrixNet>> model;
  std::optional<AcceleratedOptimizer> optimizer, others;
};

// Matrices in every bit. AdamW's fused kernel rounds at the ends of a part in another place, as do
// LibTorch's kernels for 16 bits: there two roundings are allowed.
void expect_trained_alike(const Leaves& found, const Leaves& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].element_size() == 2) {
      const double eps = expected[i].scalar_type() == at::kHalf ? 0x1p-10 : 0x1p-7;
      const auto distance = (found[i].to(at::kDouble) - expected[i].to(at::kDouble)).abs().max();
      EXPECT_LE(distance.item<double>(), 2 * eps * expected[i].abs().max().item<double>()) << what;
    } else if (expected[i].dim() == 2) {
      EXPECT_TRUE(torch::equal(found[i], expected[i]))
          << what << ", parameter " << i << " of " << expected[i].sizes() << " is off by "
          << (found[i] - expected[i]).abs().max().item<double>();
    } else {
      EXPECT_TRUE(torch::allclose(found[i], expected[i], 1e-5, 1e-6)) << what << " " << i;
    }
  }
}

Leaves trained_by_one(MatrixTrainingOptions options, int steps) {
  options.strategy.reset();
  MatrixTraining training(options, single_communicator());
  training.steps(options.steps_before, steps);
  return training.weights();
}

void expect_ranks_train_alike(const MatrixTrainingOptions& options, int ranks, Engine engine) {
  constexpr int kSteps = 7;
  const Leaves expected = trained_by_one(options, kSteps);
  run_ranks_shared(ranks,
                   [&](const std::shared_ptr<Communicator>& comm) {
                     MatrixTraining training(options, comm);
                     training.steps(options.steps_before, kSteps);
                     expect_trained_alike(training.weights(), expected,
                                          std::to_string(ranks) + " ranks");
                   },
                   {.engine = engine});
}

class ShardedMatrices : public ::testing::TestWithParam<ShardedPlace> {};

TEST_P(ShardedMatrices, HaveTheBitsOfOneProcess) {
  for (const int ranks : {1, 2, 3, 5})
    expect_ranks_train_alike({.strategy = ShardingStrategy::FULL_SHARD, .home = GetParam().home},
                             ranks, GetParam().engine);
}

TEST_P(ShardedMatrices, GoOnFromAPastOfWholeMatrices) {
  expect_ranks_train_alike(
      {.strategy = ShardingStrategy::FULL_SHARD, .home = GetParam().home, .steps_before = 3}, 3,
      GetParam().engine);
}

TEST_P(ShardedMatrices, HaveTheBitsOfOneProcessInMixedPrecision) {
  expect_ranks_train_alike({.strategy = ShardingStrategy::FULL_SHARD,
                            .home = GetParam().home,
                            .precision = MixedPrecision::bf16},
                           3, GetParam().engine);
}

INSTANTIATE_TEST_SUITE_P(All, ShardedMatrices, testing::sharded_places(), testing::kNameOfPlace);

TEST(ShardedMatrix, IsTheSameUnderEveryStrategy) {
  for (const auto strategy : {ShardingStrategy::SHARD_GRAD_OP, ShardingStrategy::HYBRID_SHARD,
                              ShardingStrategy::NO_SHARD})
    expect_ranks_train_alike({.strategy = strategy}, 4, Engine::gloo);
  expect_ranks_train_alike({.strategy = ShardingStrategy::SHARD_GRAD_OP}, 4, Engine::hierarchy);
}

TEST(ShardedMatrix, IsTheSameIn64And16Bits) {
  for (const auto dtype : {at::kDouble, at::kBFloat16, at::kHalf})
    expect_ranks_train_alike({.strategy = ShardingStrategy::FULL_SHARD, .dtype = dtype}, 3,
                             Engine::shared_memory);
}

TEST(ShardedMatrix, IsLoadedByAnotherNumberOfRanks) {
  const testing::TemporaryFolder folder;
  const MatrixTrainingOptions sharded{.strategy = ShardingStrategy::FULL_SHARD};
  const Leaves expected = trained_by_one({}, 6);
  const auto go_on = [&](MatrixTraining& training) {
    training.accelerator.load_state(folder.path() / "state");
    training.steps(3, 6);
    expect_trained_alike(training.weights(), expected, "after load_state");
  };
  run_ranks_shared(3, [&](const std::shared_ptr<Communicator>& comm) {
    MatrixTraining training(sharded, comm);
    training.steps(0, 3);
    for (const auto& local : training.muon->param_groups()[0].params()) {
      const auto& state = training.muon->state().at(local.unsafeGetTensorImpl());
      EXPECT_EQ(static_cast<MuonParamState&>(*state).momentum_buffer().sizes(), local.sizes());
    }
    training.accelerator.save_state(folder.path() / "state");
  });
  for (const int ranks : {2, 4}) {
    run_ranks_shared(ranks, [&](const std::shared_ptr<Communicator>& comm) {
      MatrixTraining training(sharded, comm);
      go_on(training);
    });
  }
  MatrixTraining alone({}, single_communicator());
  go_on(alone);
}

TEST(ShardedMatrix, ThatIsNoneIsRefused) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    MatrixTraining training({.strategy = ShardingStrategy::FULL_SHARD}, comm);
    training.optimizer->add_param_group(
        torch::optim::OptimizerParamGroup({training.net->layers->at(0)->bias}));
    training.accelerator.backward((*training.model)(0));
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "shape [5]",
                        message_of<UsageError>([&] { training.optimizer->step(); }));
  });
}

TEST(ShardedMatrix, OfAModelThatIsGoneIsRefused) {
  MatrixNet net;
  Muon muon(net->with_dimensions(true));
  {
    Accelerator accelerator(
        accelerator_options({.strategy = ShardingStrategy::FULL_SHARD}, single_communicator()));
    auto [model, optimizer] = accelerator.prepare(net, muon);
    accelerator.backward(model(0));
  }
  const auto message = message_of<UsageError>([&] { muon.step(); });
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "the sharded model is gone", message);
}

// One of a user's, which counts the matrices that it computes.
struct CountsMatrices : torch::optim::SGD, WholeMatrixOptimizer {
  CountsMatrices(const Leaves& leaves, std::atomic<int>& work)
      : SGD(leaves, torch::optim::SGDOptions(1.0)), work(work) {}
  at::Tensor step(LossClosure /*closure*/) override {
    const torch::NoGradGuard no_grad;
    step_matrices(param_groups()[0].params(),
                  {.prepare = [](const at::Tensor& parameter) { return parameter.grad(); },
                   .compute =
                       [&](const at::Tensor& whole) {
                         ++computed;
                         work += static_cast<int>(whole.numel());
                         return whole / whole.norm();
                       },
                   .apply = [](const at::Tensor& parameter,
                               const at::Tensor& update) { parameter.sub_(update); }});
    return {};
  }
  std::atomic<int>& work;
  int computed = 0;
};

TEST(ShardedMatrix, IsComputedOnceAndTheRanksShareTheWork) {
  std::atomic<int> work{0}, computed{0};
  MatrixNet whole;
  const Leaves matrices = whole->with_dimensions(true);
  int elements = 0;
  for (const auto& matrix : matrices) elements += static_cast<int>(matrix.numel());
  run_ranks_shared(3, [&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(accelerator_options({.strategy = ShardingStrategy::FULL_SHARD}, comm));
    MatrixNet net;
    CountsMatrices optimizer(net->with_dimensions(true), work);
    auto [model, prepared] = accelerator.prepare(net, optimizer);
    accelerator.backward(model(0));
    prepared.step();
    computed += optimizer.computed;
    EXPECT_GE(optimizer.computed, 1);
    const auto summoned = model.summon_full_params({.writeback = false});
    const Leaves updated = net->with_dimensions(true);
    const auto before = numbers(updated[0].sizes(), 1) * 3;
    EXPECT_NEAR((updated[0].detach() - before).norm().item<double>(), 1, 1e-5);
  });
  EXPECT_EQ(computed, static_cast<int>(matrices.size()));
  EXPECT_EQ(work, elements);
}

}  // namespace
}  // namespace accelerate
