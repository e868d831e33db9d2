// What programs do around a step: with files on disk it ends in the numbers that it ends in without,
// to the bit.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "tests/parallel/sharded/offloaded_program.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/errors.h"

namespace accelerate {
namespace {

using testing::batch_of;
using testing::expect_alike_on_disk;
using testing::OffloadedRank;
using testing::ShardedNet;
using testing::ShardedNetOptions;
using testing::whole_weights;
using torch::optim::AdamW;
using torch::optim::AdamWOptions;

TEST(OffloadedPrograms, MayAddAGroupAfterPrepare) {
  expect_alike_on_disk([](const AcceleratorOptions& options) {
    Accelerator accelerator(options);
    ShardedNet net{ShardedNetOptions{}};
    const auto all = net->parameters();
    AdamW adamw(std::vector<at::Tensor>(all.begin(), all.begin() + 4), AdamWOptions(0.01));
    auto [model, optimizer] = accelerator.prepare(net, adamw);
    for (int step = 0; step < 4; ++step) {
      if (step == 2) {
        optimizer.add_param_group(
            torch::optim::OptimizerParamGroup(std::vector<at::Tensor>(all.begin() + 4, all.end())));
      }
      accelerator.backward(model(batch_of(step, options), false).square().mean());
      optimizer.step();
      optimizer.zero_grad();
    }
    return whole_weights(model, net);
  });
}

TEST(OffloadedPrograms, MayPrepareAnOptimizerThatHasMadeSteps) {
  for (const auto precision : {MixedPrecision::no, MixedPrecision::bf16}) {
    expect_alike_on_disk(
        [](const AcceleratorOptions& options) {
          ShardedNet net{ShardedNetOptions{}};
          AdamW adamw(net->parameters(), AdamWOptions(0.01));
          for (int step = 0; step < 2; ++step) {
            adamw.zero_grad();
            net->forward(torch::ones({2, ShardedNet::Impl::kWidth}), false)
                .square()
                .mean()
                .backward();
            adamw.step();
          }
          adamw.zero_grad();
          Accelerator accelerator(options);
          auto [model, optimizer] = accelerator.prepare(net, adamw);
          for (int step = 0; step < 2; ++step) {
            accelerator.backward(model(batch_of(step, options), false).square().mean());
            optimizer.step();
            optimizer.zero_grad();
          }
          return whole_weights(model, net);
        },
        {.precision = precision});
  }
}

TEST(OffloadedPrograms, MayTrainTwoModelsByTwoOptimizersOrOne) {
  for (const bool one : {false, true}) {
    expect_alike_on_disk([one](const AcceleratorOptions& options) {
      Accelerator accelerator(options);
      ShardedNet a{ShardedNetOptions{}}, b{ShardedNetOptions{.blocks = 1}};
      auto of_a = a->parameters();
      const auto of_b = b->parameters();
      if (one) of_a.insert(of_a.end(), of_b.begin(), of_b.end());
      AdamW first(of_a, AdamWOptions(0.01)), second(of_b, AdamWOptions(0.02));
      auto [model_a, model_b] = accelerator.prepare(a, b);
      auto optimizer = accelerator.prepare(first);
      std::optional<AcceleratedOptimizer> other;
      if (!one) other = accelerator.prepare(second);
      for (int step = 0; step < 3; ++step) {
        const auto x = batch_of(step, options);
        accelerator.backward((model_a(x, false) + model_b(x, false)).square().mean());
        optimizer.step();
        if (other) other->step();
        optimizer.zero_grad();
        if (other) other->zero_grad();
      }
      auto weights = whole_weights(model_a, a);
      for (auto& weight : whole_weights(model_b, b)) weights.push_back(weight);
      return weights;
    });
  }
}

TEST(OffloadedPrograms, MayDivideAModelAmongTwoOptimizers) {
  expect_alike_on_disk([](const AcceleratorOptions& options) {
    Accelerator accelerator(options);
    ShardedNet net{ShardedNetOptions{}};
    std::vector<at::Tensor> matrices, vectors;
    for (const auto& parameter : net->parameters())
      (parameter.dim() > 1 ? matrices : vectors).push_back(parameter);
    AdamW adamw(matrices, AdamWOptions(0.01));
    torch::optim::SGD sgd(vectors, torch::optim::SGDOptions(0.05).momentum(0.9));
    auto [model, first, second] = accelerator.prepare(net, adamw, sgd);
    for (int step = 0; step < 4; ++step) {
      accelerator.backward(model(batch_of(step, options), false).square().mean());
      first.step();
      if (step % 2 == 0) second.step();
      first.zero_grad();
      second.zero_grad();
    }
    return whole_weights(model, net);
  });
}

// Each has a state of its own.
TEST(OffloadedPrograms, MayStepOneModelByTwoOptimizersInTurn) {
  for (const auto precision : {MixedPrecision::no, MixedPrecision::bf16}) {
    expect_alike_on_disk(
        [](const AcceleratorOptions& options) {
          OffloadedRank rank(options);
          torch::optim::SGD sgd(rank.net->parameters(),
                                torch::optim::SGDOptions(0.05).momentum(0.9));
          auto other = rank.accelerator.prepare(sgd);
          for (int step = 0; step < 6; ++step) {
            rank.backward(step);
            step % 2 == 0 ? rank.optimizer.step() : other.step();
            rank.optimizer.zero_grad();
          }
          return rank.weights();
        },
        {.precision = precision});
  }
}

TEST(OffloadedPrograms, MayBeginAgainWithANewOptimizer) {
  expect_alike_on_disk([](const AcceleratorOptions& options) {
    OffloadedRank rank(options);
    for (int step = 0; step < 2; ++step) rank.step(step);
    AdamW fresh(rank.net->parameters(), AdamWOptions(0.01));
    auto optimizer = rank.accelerator.prepare(fresh);
    for (int step = 0; step < 2; ++step) {
      rank.backward(step);
      optimizer.step();
      optimizer.zero_grad();
    }
    return rank.weights();
  });
}

TEST(OffloadedPrograms, MayForgetTheStateOfAnOptimizer) {
  expect_alike_on_disk([](const AcceleratorOptions& options) {
    OffloadedRank rank(options);
    for (int step = 0; step < 2; ++step) rank.step(step);
    rank.adamw.state().clear();
    for (int step = 0; step < 2; ++step) rank.step(step);
    return rank.weights();
  });
}

TEST(OffloadedPrograms, MayZeroGradientsOrAddToThem) {
  for (const bool zeroes : {true, false}) {
    for (const auto precision : {MixedPrecision::no, MixedPrecision::bf16}) {
      expect_alike_on_disk(
          [zeroes](const AcceleratorOptions& options) {
            OffloadedRank rank(options);
            for (int step = 0; step < 4; ++step) {
              rank.backward(step);
              rank.optimizer.step();
              if (zeroes) rank.optimizer.zero_grad(/*set_to_none=*/false);
            }
            return rank.weights();
          },
          {.precision = precision});
    }
  }
}

TEST(OffloadedPrograms, MayAccumulateUnderNoSync) {
  for (const auto precision : {MixedPrecision::no, MixedPrecision::bf16}) {
    expect_alike_on_disk(
        [](const AcceleratorOptions& options) {
          OffloadedRank rank(options);
          for (int step = 0; step < 6; ++step) {
            if (step % 3 != 2) {
              const auto alone = rank.accelerator.no_sync(rank.model);
              rank.backward(step);
            } else {
              rank.backward(step);
              rank.accelerator.clip_grad_norm_(rank.model.parameters(), 0.01);
              rank.optimizer.step();
              rank.optimizer.zero_grad();
            }
          }
          return rank.weights();
        },
        {.precision = precision});
  }
}

TEST(OffloadedPrograms, MayOverflowAndSkipAStep) {
  expect_alike_on_disk(
      [](const AcceleratorOptions& options) {
        OffloadedRank rank(options);
        std::vector<at::Tensor> skipped;
        for (int step = 0; step < 4; ++step) {
          rank.accelerator.backward(rank.loss(step) * (step == 1 ? INFINITY : 1.0));
          rank.optimizer.step();
          skipped.push_back(torch::tensor(rank.optimizer.step_was_skipped()));
          rank.optimizer.zero_grad();
        }
        EXPECT_TRUE(skipped[1].item<bool>());
        auto weights = rank.weights();
        weights.insert(weights.end(), skipped.begin(), skipped.end());
        return weights;
      },
      {.precision = MixedPrecision::fp16});
}

TEST(OffloadedPrograms, MayEvaluateBetweenStepsAndInTheMiddleOfOne) {
  for (const int ranks : {1, 2}) {
    expect_alike_on_disk(
        [](const AcceleratorOptions& options) {
          OffloadedRank rank(options, {.has_branch = true});
          std::vector<at::Tensor> losses;
          const auto evaluate = [&](int step) {
            const torch::NoGradGuard no_grad;
            losses.push_back(rank.model(batch_of(step, options), step % 2 == 0).mean());
          };
          for (int step = 0; step < 4; ++step) {
            evaluate(step);
            const auto loss = rank.loss(step);
            evaluate(step + 1);
            rank.accelerator.backward(loss);
            evaluate(step);
            rank.optimizer.step();
            evaluate(step + 1);
            rank.optimizer.zero_grad();
          }
          auto found = rank.weights();
          found.insert(found.end(), losses.begin(), losses.end());
          return found;
        },
        {.ranks = ranks});
  }
}

TEST(OffloadedPrograms, MayGoOnAfterAnExceptionInForward) {
  for (const int ranks : {1, 2}) {
    expect_alike_on_disk(
        [](const AcceleratorOptions& options) {
          OffloadedRank rank(options);
          for (int step = 0; step < 4; ++step) {
            EXPECT_THROW((void)rank.model(torch::ones({2, 3}), false), c10::Error);
            rank.step(step);
          }
          return rank.weights();
        },
        {.ranks = ranks});
  }
}

TEST(OffloadedPrograms, MayChangeWholeParameters) {
  for (const auto precision : {MixedPrecision::no, MixedPrecision::bf16}) {
    expect_alike_on_disk(
        [](const AcceleratorOptions& options) {
          OffloadedRank rank(options, {.tied = true, .frozen = true});
          for (int step = 0; step < 4; ++step) {
            rank.step(step);
            const torch::NoGradGuard no_grad;
            const auto whole = rank.model.summon_full_params();
            for (auto& parameter : rank.net->parameters()) parameter.mul_(0.9);
            EXPECT_THROW((void)rank.model.summon_full_params(), UsageError);
          }
          return rank.weights();
        },
        {.precision = precision});
  }
}

// Widths of elements, numbers of ranks that divide nothing, tied weights.
TEST(OffloadedPrograms, MayComputeInDoublePrecisionOnThreeRanks) {
  expect_alike_on_disk(
      [](const AcceleratorOptions& options) {
        Accelerator accelerator(options);
        ShardedNet net{ShardedNetOptions{.tied = true}};
        net->to(at::kDouble);
        AdamW adamw(net->parameters(), AdamWOptions(0.01).amsgrad(true));
        auto [model, optimizer] = accelerator.prepare(net, adamw);
        for (int step = 0; step < 3; ++step) {
          const auto x = testing::rows_of(step, *options.communicator);
          accelerator.backward(model(x, false).square().mean());
          optimizer.step();
          optimizer.zero_grad();
        }
        return whole_weights(model, net);
      },
      {.ranks = 3});
}

// Modules without parameters, parameters without elements, units of nothing else.
struct EmptyBlockImpl : torch::nn::Module {
  EmptyBlockImpl() : nothing(register_parameter("nothing", torch::empty({0, 3}))) {}
  at::Tensor forward(const at::Tensor& x) { return x + nothing.sum(); }
  at::Tensor nothing;
};
TORCH_MODULE(EmptyBlock);

struct OddNetImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return last(dropout(empty(first(x)))) * scale; }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(7, 5));
  EmptyBlock empty = register_module("empty", EmptyBlock());
  torch::nn::Dropout dropout = register_module("dropout", torch::nn::Dropout(0.0));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(5, 1));
  at::Tensor scale = register_parameter("scale", torch::ones({}));
};
TORCH_MODULE(OddNet);

TEST(OffloadedPrograms, MayHaveUnitsWithoutElements) {
  testing::OffloadedSetting setting;
  setting.plugin.transformer_cls_names_to_wrap = {{"EmptyBlock", "Linear"}};
  for (const auto precision : {MixedPrecision::no, MixedPrecision::bf16}) {
    setting.precision = precision;
    expect_alike_on_disk(
        [](const AcceleratorOptions& options) {
          Accelerator accelerator(options);
          OddNet net;
          const torch::NoGradGuard no_grad;
          for (auto& parameter : net->parameters()) parameter.fill_(0.3);
          AdamW adamw(net->parameters(), AdamWOptions(0.01));
          auto [model, optimizer] = accelerator.prepare(net, adamw);
          for (int step = 0; step < 3; ++step) {
            const torch::AutoGradMode grad(true);
            accelerator.backward(model(batch_of(step, options)).to(at::kFloat).square().mean());
            optimizer.step();
            optimizer.zero_grad();
          }
          return whole_weights(model, net);
        },
        setting);
  }
}

TEST(OffloadedPrograms, MayEndWithTheModelBeforeTheOptimizer) {
  expect_alike_on_disk([](const AcceleratorOptions& options) {
    ShardedNet net{ShardedNetOptions{}};
    AdamW adamw(net->parameters(), AdamWOptions(0.01));
    {
      Accelerator accelerator(options);
      auto [model, optimizer] = accelerator.prepare(net, adamw);
      accelerator.backward(model(batch_of(0, options), false).square().mean());
      optimizer.step();
      accelerator.free_memory();
    }
    net = nullptr;
    std::vector<at::Tensor> found;
    for (const auto& parameter : adamw.param_groups().front().params()) {
      const auto& state = static_cast<torch::optim::AdamWParamState&>(
          *adamw.state().at(parameter.unsafeGetTensorImpl()));
      found.push_back(parameter.detach().clone());
      found.push_back(state.exp_avg().clone());
    }
    return found;
  });
}

}  // namespace
}  // namespace accelerate
