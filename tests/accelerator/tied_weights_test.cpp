// Weights with two names, which Module::parameters() lists twice and Python's once.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::LogCapture;
using testing::run_ranks_shared;

// The net of tests/reference/tied_live.py.
struct TiedImpl : torch::nn::Module {
  TiedImpl() {
    embedding = register_parameter(
        "embedding", (torch::arange(12, at::kDouble) + 1).sin().view({3, 4}) * 0.5);
    bias = register_parameter("bias", torch::zeros({3}, at::kDouble));
    head = register_parameter("head", embedding);
  }
  at::Tensor forward(const at::Tensor& x) {
    return torch::tanh(x.mm(embedding)).mm(head.t()) + bias;
  }
  at::Tensor embedding, bias, head;
};
TORCH_MODULE(Tied);

using Optimizer = std::unique_ptr<torch::optim::Optimizer>;

const std::map<std::string, std::function<Optimizer(const std::vector<at::Tensor>&)>> kOptimizers =
    {{"SGD",
      [](const auto& all) {
        return std::make_unique<torch::optim::SGD>(
            all, torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.01));
      }},
     {"AdamW",
      [](const auto& all) {
        return std::make_unique<torch::optim::AdamW>(
            all, torch::optim::AdamWOptions(0.05).weight_decay(0.1));
      }},
     {"Adagrad",
      [](const auto& all) { return std::make_unique<torch::optim::Adagrad>(all, 0.1); }},
     {"RMSprop", [](const auto& all) {
        return std::make_unique<torch::optim::RMSprop>(
            all, torch::optim::RMSpropOptions(0.01).momentum(0.5));
      }}};

/// The weights as the script prints them. All ranks have the same samples.
std::vector<double> trained(const std::string& kind, const AcceleratorOptions& options) {
  Accelerator accelerator(options);
  Tied net;
  const Optimizer inner = kOptimizers.at(kind)(net->parameters());
  auto [model, optimizer] = accelerator.prepare(net, *inner);
  for (int step = 0; step < 10; ++step) {
    const auto x = (torch::arange(24, at::kDouble) * 0.7 + step).sin().view({8, 3});
    accelerator.backward((model(x) - x.flip(1)).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  const auto all = torch::cat({net->embedding.flatten(), net->bias}).detach();
  return {all.const_data_ptr<double>(), all.const_data_ptr<double>() + all.numel()};
}

void expect_close(const std::vector<double>& ours, const std::vector<double>& theirs) {
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-10) << i;
}

TEST(TiedWeights, TrainToWhatPythonTrainsWholeAndSharded) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const auto run = testing::run_program(
      {testing::reference_python(), testing::reference_path("tied_live.py").string()},
      {.env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto python =
      nlohmann::json::parse(run.out).get<std::map<std::string, std::vector<double>>>();
  ASSERT_EQ(python.size(), kOptimizers.size());
  const LogCapture log;
  for (const auto& [kind, weights] : python) {
    SCOPED_TRACE(kind);
    expect_close(trained(kind, {}), weights);
    run_ranks_shared(2, [&, kind = kind, weights = weights](const auto& ranks) {
      expect_close(trained(kind, {.communicator = ranks}), weights);
      expect_close(trained(kind, {.fsdp_plugin = FullyShardedDataParallelPlugin{},
                                  .communicator = ranks}),
                   weights);
    });
  }
}

using Lines = std::vector<std::string>;

void expect_one_warning_of(const Lines& lines, const std::vector<std::string>& words) {
  ASSERT_EQ(lines.size(), 1U) << ::testing::PrintToString(lines);
  for (const auto& word : words) {
    EXPECT_NE(lines.front().find(word), std::string::npos) << lines.front();
  }
}

TEST(TiedWeights, AreNamedInAWarningWhicheverIsPreparedFirst) {
  for (const bool optimizer_first : {false, true}) {
    const LogCapture log;
    Accelerator accelerator;
    Tied net;
    torch::optim::SGD sgd(net->parameters(), 0.1);
    if (optimizer_first) static_cast<void>(accelerator.prepare(sgd));
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    expect_one_warning_of(log.lines(), {"SGD", "'embedding' and 'head'", "stepped once"});
    EXPECT_EQ(sgd.param_groups()[0].params().size(), 2U);
    static_cast<void>(accelerator.prepare(net, sgd));
    EXPECT_EQ(log.lines().size(), 1U);
  }
}

TEST(TiedWeights, OfTwoGroupsBelongToTheFirst) {
  const LogCapture log;
  Accelerator accelerator;
  Tied net;
  torch::optim::SGD sgd({torch::optim::OptimizerParamGroup({net->embedding, net->bias}),
                         torch::optim::OptimizerParamGroup({net->head})},
                        torch::optim::SGDOptions(0.1));
  static_cast<void>(accelerator.prepare(net, sgd));
  expect_one_warning_of(log.lines(), {"options of parameter group 0", "not those of group 1"});
  EXPECT_EQ(sgd.param_groups()[0].params().size(), 2U);
  EXPECT_TRUE(sgd.param_groups()[1].params().empty());
}

TEST(TiedWeights, OfNoPreparedModelGoByTheirPlaces) {
  const LogCapture log;
  Accelerator accelerator;
  Tied net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto optimizer = accelerator.prepare(sgd);
  accelerator.backward(net(torch::ones({1, 3}, at::kDouble)).sum());
  expect_one_warning_of(log.lines(), {"param_groups.0.0 and param_groups.0.2"});
}

TEST(TiedWeights, OfAGroupThatComesLaterAreListedOnce) {
  const LogCapture log;
  Accelerator accelerator;
  Tied net;
  torch::optim::SGD sgd({net->bias}, 0.1);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  optimizer.add_param_group(torch::optim::OptimizerParamGroup({net->embedding, net->head}));
  EXPECT_EQ(sgd.param_groups()[1].params().size(), 1U);
  expect_one_warning_of(log.lines(), {"param_groups.1.0 and param_groups.1.1"});
}

TEST(TiedWeights, KeepTheStateOfStepsBeforePrepare) {
  const LogCapture log;
  Accelerator accelerator;
  Tied net;
  torch::optim::AdamW adamw(net->parameters(), 0.1);
  net(torch::ones({1, 3}, at::kDouble)).sum().backward();
  adamw.step();
  const void* key = net->embedding.unsafeGetTensorImpl();
  const auto* before = adamw.state().at(const_cast<void*>(key)).get();
  static_cast<void>(accelerator.prepare(net, adamw));
  EXPECT_EQ(adamw.state().at(const_cast<void*>(key)).get(), before);
  EXPECT_EQ(adamw.state().size(), 2U);
}

TEST(TiedWeights, OfAnLbfgsThatHasSteppedAreRefused) {
  Accelerator accelerator;
  Tied net;
  torch::optim::LBFGS lbfgs(net->parameters(), 0.1);
  lbfgs.step([&] {
    auto loss = net(torch::ones({1, 3}, at::kDouble)).square().sum();
    loss.backward();
    return loss;
  });
  const auto text = testing::message_of<UsageError>(
      [&] { static_cast<void>(accelerator.prepare(net, lbfgs)); });
  EXPECT_NE(text.find("before its first step"), std::string::npos) << text;
}

}  // namespace
}  // namespace accelerate
