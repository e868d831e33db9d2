// A training step: autocast, loss scaling, accumulation, item counts, exceptions in a micro-batch.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "accelerate/accelerate.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Outputs {
  at::Tensor logits;
  std::map<std::string, std::vector<at::Tensor>> hidden;
  std::string name;
};
void visit_tensors(Outputs& outputs, auto&& fn) {
  fn(outputs.logits);
  visit_tensors(outputs.hidden, fn);
}

// Reports the type that its linear layer computed in.
struct RichNetImpl : torch::nn::Module {
  RichNetImpl() { layer = register_module("layer", torch::nn::Linear(4, 2)); }
  Outputs forward(const at::Tensor& x) {
    const auto y = layer(x);
    computed_in = y.scalar_type();
    return {y, {{"h", {y * 2, y.to(at::kDouble), y.argmax(1)}}}, "rich"};
  }
  torch::nn::Linear layer{nullptr};
  at::ScalarType computed_in = at::kFloat;
};
TORCH_MODULE(RichNet);

class Precision : public ::testing::TestWithParam<std::pair<MixedPrecision, at::ScalarType>> {};

TEST_P(Precision, ForwardComputesInItAndReturnsFp32) {
  Accelerator accelerator(
      {.mixed_precision = GetParam().first, .communicator = single_communicator()});
  RichNet net;
  auto model = accelerator.prepare(net);
  const auto outputs = model(torch::ones({3, 4}));
  EXPECT_EQ(net->computed_in, GetParam().second);
  EXPECT_EQ(outputs.logits.scalar_type(), at::kFloat);
  EXPECT_EQ(outputs.hidden.at("h")[0].scalar_type(), at::kFloat);
  EXPECT_EQ(outputs.hidden.at("h")[1].scalar_type(), at::kDouble);
  EXPECT_EQ(outputs.hidden.at("h")[2].scalar_type(), at::kLong);
  EXPECT_EQ(outputs.name, "rich");
  EXPECT_EQ(accelerator.native_amp(), GetParam().first != MixedPrecision::no);
  EXPECT_EQ(accelerator.scaler() != nullptr, GetParam().first == MixedPrecision::fp16);
  const auto x = torch::ones({2, 2});
  EXPECT_EQ(torch::mm(x, x).scalar_type(), at::kFloat) << "outside of forward";
  const auto scope = accelerator.autocast();
  EXPECT_EQ(torch::mm(x, x).scalar_type(), GetParam().second);
  const auto off = accelerator.autocast({.enabled = false});
  EXPECT_EQ(torch::mm(x, x).scalar_type(), at::kFloat);
}

INSTANTIATE_TEST_SUITE_P(All, Precision,
                         ::testing::Values(std::pair{MixedPrecision::no, at::kFloat},
                                           std::pair{MixedPrecision::bf16, at::kBFloat16},
                                           std::pair{MixedPrecision::fp16, at::kHalf}));

TEST(Training, ScriptsComputeInMixedPrecisionAndReturnFp32Nested) {
  Accelerator accelerator(
      {.mixed_precision = MixedPrecision::bf16, .communicator = single_communicator()});
  torch::jit::Module script("net");
  script.register_parameter("w", torch::ones({3, 2}), false);
  script.define(R"(
    def forward(self, x):
      y = torch.mm(x, self.w)
      return y, [y, y], {"a": y}, y.dtype == 15
  )");
  auto model = accelerator.prepare(script);
  const auto outputs = model({torch::ones({4, 3})}).toTuple();
  EXPECT_TRUE(outputs->elements()[3].toBool()) << "computed in bfloat16";
  EXPECT_EQ(outputs->elements()[0].toTensor().scalar_type(), at::kFloat);
  EXPECT_EQ(outputs->elements()[1].toTensorVector()[1].scalar_type(), at::kFloat);
  EXPECT_EQ(outputs->elements()[2].toGenericDict().at("a").toTensor().scalar_type(), at::kFloat);
}

// y = w x with w = 0 at first; x = 1..n, y = 2x.
struct LineImpl : torch::nn::Module {
  LineImpl() {
    w = register_module("w", torch::nn::Linear(torch::nn::LinearOptions(1, 1).bias(false)));
    torch::NoGradGuard no_grad;
    w->weight.zero_();
  }
  at::Tensor forward(const at::Tensor& x) { return w(x); }
  torch::nn::Linear w{nullptr};
};
TORCH_MODULE(Line);

at::Tensor line_points(std::int64_t n) {
  const auto x = torch::arange(1, n + 1, at::kFloat).unsqueeze(1);
  return torch::cat({x, 2 * x}, 1);
}

double train_line(const AcceleratorOptions& options, std::int64_t batch_size, std::int64_t n = 8) {
  Accelerator accelerator(options);
  Line net;
  torch::optim::SGD sgd(net->parameters(), 0.02);
  auto batches = make_data_loader(line_points(n), {.batch_size = batch_size});
  auto [model, optimizer, loader] = accelerator.prepare(net, sgd, batches);
  for (auto& batch : loader) {
    const auto window = accelerator.accumulate(model);
    const auto loss =
        torch::mse_loss(model(batch.select(1, 0).unsqueeze(1)), batch.select(1, 1).unsqueeze(1));
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  return net->w->weight.template item<double>();
}

// The example of Hugging Face's guide to gradient accumulation.
TEST(Training, FourMicroBatchesOfTwoAreABatchOfEight) {
  const double whole = train_line({.communicator = single_communicator()}, 8);
  const double accumulated =
      train_line({.gradient_accumulation_steps = 4, .communicator = single_communicator()}, 2);
  EXPECT_NEAR(whole, 2.04, 1e-6);
  EXPECT_NEAR(accumulated, 2.04, 1e-6);
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    EXPECT_NEAR(train_line({.gradient_accumulation_steps = 2, .communicator = comm}, 2), 2.04,
                1e-6);
    EXPECT_NEAR(train_line({.gradient_accumulation_steps = 4,
                            .dataloader_config = {.split_batches = true},
                            .communicator = comm},
                           2),
                2.04, 1e-6);
  });
}

TEST(Training, GradientsAreEqualOnRanksExactlyWhenSyncGradients) {
  for (const bool each_batch : {false, true}) {
    run_ranks_shared(2, [each_batch](const std::shared_ptr<Communicator>& comm) {
      Accelerator accelerator(
          {.gradient_accumulation_plugin =
               GradientAccumulationPlugin{.num_steps = 2, .sync_each_batch = each_batch},
           .communicator = comm});
      Line net;
      auto model = accelerator.prepare(net);
      for (int i = 0; i < 4; ++i) {
        const auto window = accelerator.accumulate(model);
        accelerator.backward(model(torch::full({1, 1}, comm->rank() + i + 1.0)).sum());
        const auto all = accelerator.gather(net->w->weight.grad());
        EXPECT_EQ(accelerator.sync_gradients(), i % 2 == 1);
        EXPECT_EQ(all[0].equal(all[1]), each_batch || accelerator.sync_gradients()) << i;
        if (accelerator.sync_gradients()) net->w->weight.mutable_grad() = at::Tensor();
      }
    });
  }
}

TEST(Training, ASecondModelOutsideTheWindowSynchronisesByItself) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.gradient_accumulation_steps = 2, .communicator = comm});
    Line first, second;
    auto [a, b] = accelerator.prepare(first, second);
    for (int i = 0; i < 2; ++i) {
      const auto window = accelerator.accumulate(a);
      const auto x = torch::full({1, 1}, comm->rank() + 1.0);
      accelerator.backward((a(x) + b(x)).sum());
      const auto outside = accelerator.gather(second->w->weight.grad());
      EXPECT_TRUE(outside[0].equal(outside[1]));
    }
    EXPECT_EQ(first->w->weight.grad().item<double>(), 1.5);
    EXPECT_EQ(second->w->weight.grad().item<double>(), 1.5);
  });
}

// Both would average its gradient.
TEST(Training, TwoModelsWithATrainableParameterInCommonAreRefusedByName) {
  Accelerator accelerator({.communicator = single_communicator()});
  torch::nn::Linear common(2, 2);
  torch::nn::Sequential one(common), other(torch::nn::ReLU(), common);
  {
    const auto prepared = accelerator.prepare(one);
    try {
      (void)accelerator.prepare(other);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const UsageError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("parameter '1.weight'"), std::string::npos) << text;
      EXPECT_NE(text.find("is also '0.weight'"), std::string::npos) << text;
    }
  }
  const auto prepared = accelerator.prepare(other);  // the first one has gone
  for (auto& parameter : common->parameters()) parameter.requires_grad_(false);
  EXPECT_NO_THROW((void)accelerator.prepare(one)) << "nothing of it is trained";
}

TEST(Training, TwoModelsUnderOneWindowAccumulateTogether) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.gradient_accumulation_steps = 2, .communicator = comm});
    Line first, second;
    auto [a, b] = accelerator.prepare(first, second);
    for (int i = 0; i < 2; ++i) {
      const auto window = accelerator.accumulate(a, b);
      const auto x = torch::full({1, 1}, comm->rank() + 1.0);
      accelerator.backward(a(x).sum());
      accelerator.backward((2 * b(x)).sum());
    }
    EXPECT_EQ(first->w->weight.grad().item<double>(), 1.5);
    EXPECT_EQ(second->w->weight.grad().item<double>(), 3.0);
  });
}

TEST(Training, TriggerSyncInBackwardReducesWhatNoSyncGathered) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.communicator = comm});
    Line net;
    auto model = accelerator.prepare(net);
    const auto scope = accelerator.no_sync(model);
    const auto x = torch::full({1, 1}, comm->rank() + 1.0);
    const auto first = model(x).sum(), second = model(10 * x).sum();
    accelerator.backward(first);
    EXPECT_EQ(net->w->weight.grad().item<double>(), comm->rank() + 1.0);
    Accelerator::trigger_sync_in_backward(model);
    accelerator.backward(second);
    EXPECT_EQ(net->w->weight.grad().item<double>(), 16.5);
  });
}

// Ranks and micro-batches with different numbers of tokens weigh each token alike.
TEST(Training, LossesThatCountTheirItemsGiveTheMeanOverAllItems) {
  for (const int ranks : {1, 2, 3}) {
    run_ranks_shared(ranks, [](const std::shared_ptr<Communicator>& comm) {
      Accelerator accelerator({.gradient_accumulation_steps = 2, .communicator = comm});
      Line net;
      auto model = accelerator.prepare(net);
      double sum = 0, items = 0;
      for (int rank = 0; rank < comm->size(); ++rank) {
        for (int i = 0; i < 2; ++i) {
          const int tokens = 1 + rank + 3 * i;
          const auto x = torch::arange(1, tokens + 1, at::kFloat).unsqueeze(1);
          sum += x.sum().item<double>();
          items += tokens;
          if (rank != comm->rank()) continue;
          const auto window = accelerator.accumulate(model);
          accelerator.backward(model(x).sum(), {.num_items = tokens});
        }
      }
      EXPECT_NEAR(net->w->weight.grad().item<double>(), sum / items, 1e-6);
    });
  }
}

TEST(Training, AnOverflowOnOneRankSkipsTheStepOfAll) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator({.mixed_precision = MixedPrecision::fp16, .communicator = comm});
    Line net;
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    for (const bool overflow : {true, false}) {
      const auto before = net->w->weight.detach().clone();
      {
        const auto scope = accelerator.no_sync(model);  // The ranks' gradients stay different.
        const auto factor = overflow && comm->rank() == 1 ? kInf : 1.0F;
        accelerator.backward((model(torch::ones({1, 1})) * factor).sum());
      }
      optimizer.step();
      optimizer.zero_grad();
      EXPECT_EQ(accelerator.optimizer_step_was_skipped(), overflow);
      EXPECT_EQ(net->w->weight.equal(before), overflow);
      EXPECT_EQ(accelerator.scaler()->get_scale(), 32768.0);
    }
  });
}

TEST(Training, Fp16GradientsCannotBeUnscaledAndTheErrorTellsTheCure) {
  Accelerator accelerator(
      {.mixed_precision = MixedPrecision::fp16, .communicator = single_communicator()});
  Line net;
  net->to(at::kHalf);
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  accelerator.backward(model(torch::ones({1, 1})).sum());
  try {
    optimizer.step();
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("parameters in fp32"), std::string::npos);
  }
}

TEST(Training, UnscalingInTheMiddleOfAWindowIsAnError) {
  Accelerator accelerator({.gradient_accumulation_steps = 2,
                           .mixed_precision = MixedPrecision::fp16,
                           .communicator = single_communicator()});
  Line net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto window = accelerator.accumulate(model);
  accelerator.backward(model(torch::ones({1, 1})).sum());
  EXPECT_THROW(accelerator.unscale_gradients(), UsageError);
}

TEST(Training, AfterAnExceptionTheMicroBatchIsRunAgainAndStepsUntilThenAreRefused) {
  Accelerator accelerator(
      {.gradient_accumulation_steps = 2, .communicator = single_communicator()});
  Line net;
  torch::optim::SGD sgd(net->parameters(), 0.5);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto micro_batch = [&](bool fails) {
    const auto window = accelerator.accumulate(model);
    const auto loss = model(torch::ones({1, 1})).sum();
    if (fails) throw DataError("a broken sample");
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  };
  micro_batch(false);
  EXPECT_THROW(micro_batch(true), DataError);
  EXPECT_THROW(optimizer.step(), UsageError);
  micro_batch(false);
  EXPECT_EQ(net->w->weight.item<double>(), -0.5) << "one step of the mean of two micro-batches";
  EXPECT_THROW(micro_batch(true), DataError);
  optimizer.zero_grad();
  EXPECT_NO_THROW(optimizer.step());
}

TEST(Training, MixingCountedAndUncountedLossesInAWindowIsAnError) {
  Accelerator accelerator(
      {.gradient_accumulation_steps = 2, .communicator = single_communicator()});
  Line net;
  auto model = accelerator.prepare(net);
  const auto x = torch::ones({1, 1});
  const auto window = accelerator.accumulate(model);
  EXPECT_THROW(accelerator.backward(model(x).sum(), {.num_items = -1}), UsageError);
  accelerator.backward(model(x).sum(), {.num_items = 3});
  EXPECT_THROW(accelerator.backward(model(x).sum()), UsageError);
}

}  // namespace
}  // namespace accelerate
