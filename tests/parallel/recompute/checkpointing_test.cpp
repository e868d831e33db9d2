// What gradient checkpointing keeps, chooses and refuses.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/parallel/recompute/recomputed_units.h"
#include "accelerate/tensor/step_recording.h"
#include "tests/parallel/recompute/foreign_modules.h"
#include "tests/support/counted_memory.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::AttentionBlockImpl;
using testing::expect_has;
using testing::kLength;
using testing::kWidth;
using testing::message_of;
using testing::StackImpl;

Accelerator checkpointing(GradientCheckpointing options = {}) {
  return Accelerator({.cpu = true, .gradient_checkpointing = std::move(options)});
}

at::Tensor rows(std::int64_t count = 3) {
  return torch::randn({count, kLength, kWidth});
}

// --- What is kept --------------------------------------------------------------------------------

struct Held {
  std::size_t after_forward = 0, peak = 0;
  std::vector<at::Tensor> gradients;
};

Held held_by(std::optional<GradientCheckpointing> options, int blocks) {
  Accelerator accelerator({.cpu = true, .gradient_checkpointing = std::move(options)});
  torch::manual_seed(1);
  auto net = std::make_shared<StackImpl<AttentionBlockImpl>>(blocks);
  auto model = accelerator.prepare(net);
  const auto x = rows(512);
  Held held;
  const auto memory = std::make_unique<testing::CountedMemory>();
  auto loss = model(x).square().mean();
  held.after_forward = memory->live();
  memory->forget_peak();
  accelerator.backward(loss);
  loss.reset();
  held.peak = memory->peak();
  for (const auto& parameter : net->parameters()) held.gradients.push_back(parameter.grad());
  return held;
}

TEST(GradientCheckpointing, KeepsTheInputsOfUnitsAndOneUnit) {
  constexpr std::size_t kBlocks = 8;
  const Held plain = held_by({}, kBlocks), again = held_by(GradientCheckpointing{}, kBlocks);
  const std::size_t input = 512 * kLength * kWidth * sizeof(float);
  const std::size_t unit = (plain.after_forward - 2 * input) / kBlocks;
  EXPECT_LT(again.after_forward, (kBlocks + 3) * input);
  EXPECT_LT(again.peak, (kBlocks + 3) * input + 2 * unit);
  EXPECT_LT(3 * again.peak, plain.peak);
  for (std::size_t i = 0; i < plain.gradients.size(); ++i)
    EXPECT_TRUE(plain.gradients[i].equal(again.gradients[i])) << i;
}

TEST(GradientCheckpointing, KeepsMoreWhereItComputesLess) {
  const auto nothing = held_by(GradientCheckpointing{}, 6).after_forward;
  const auto products =
      held_by(GradientCheckpointing{.keep = GradientCheckpointing::Keep::products}, 6)
          .after_forward;
  const auto third = held_by(GradientCheckpointing{.every = 3}, 6).after_forward;
  const auto plain = held_by({}, 6).after_forward;
  EXPECT_LT(nothing, products);
  EXPECT_LT(products, plain);
  EXPECT_LT(nothing, third);
  EXPECT_LT(third, plain);
}

// Moving from the CPU to the CPU copies, which shows what is moved and comes back.
TEST(GradientCheckpointing, MovesInputsOfUnitsAwayAndBack) {
  std::vector<std::vector<at::Tensor>> found;
  std::vector<std::size_t> held;
  for (const bool offloads : {false, true}) {
    torch::manual_seed(1);
    StackImpl<AttentionBlockImpl> net(4);
    auto plan = detail::plan_recompute(view_of(net), {}, std::nullopt);
    if (offloads) plan.offloads_from = c10::DeviceType::CPU;
    const auto x = rows(64);
    const testing::CountedMemory memory;
    at::Tensor loss;
    {
      const detail::RecomputeScope scope(plan);
      loss = net.forward(x).square().mean();
    }
    held.push_back(memory.live());
    loss.backward({}, /*retain_graph=*/true);
    loss.backward();
    auto& gradients = found.emplace_back();
    for (const auto& parameter : net.parameters()) gradients.push_back(parameter.grad().clone());
  }
  for (std::size_t i = 0; i < found[0].size(); ++i)
    EXPECT_TRUE(found[0][i].equal(found[1][i])) << i;
  const std::size_t input = 64 * kLength * kWidth * sizeof(float);
  EXPECT_LT(held[1], held[0] + input / 2);  // The copies, and no longer what was copied.
}

TEST(GradientCheckpointing, LeavesNothingBehind) {
  const testing::CountedMemory memory;
  {
    auto accelerator = checkpointing();
    auto model = accelerator.prepare(std::make_shared<StackImpl<AttentionBlockImpl>>());
    for (int i = 0; i < 3; ++i) accelerator.backward(model(rows()).square().mean());
    (void)model(rows());  // A forward without a backward.
  }
  EXPECT_LT(memory.live(), 40000U);  // LibTorch's own.
}

// --- What is computed ----------------------------------------------------------------------------

std::vector<at::Tensor> gradients_of(torch::nn::Module& module) {
  std::vector<at::Tensor> gradients;
  for (const auto& parameter : module.parameters())
    gradients.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  return gradients;
}

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    EXPECT_TRUE(!a[i].defined() || a[i].equal(b[i])) << i;
  }
}

// Calls `step` with a plain and with a checkpointed model, and compares the gradients.
template <typename Block = AttentionBlockImpl, typename Step>
void expect_same_gradients(const Step& step) {
  std::vector<std::vector<at::Tensor>> found;
  for (const bool recomputes : {false, true}) {
    Accelerator accelerator({.cpu = true});
    if (recomputes) accelerator = checkpointing();
    torch::manual_seed(1);
    auto net = std::make_shared<StackImpl<Block>>();
    auto model = accelerator.prepare(net);
    torch::manual_seed(2);
    step(accelerator, model);
    found.push_back(gradients_of(*net));
  }
  expect_equal(found[0], found[1]);
}

TEST(GradientCheckpointing, ServesTwoBackwardsOfOneForward) {
  expect_same_gradients([](Accelerator& accelerator, auto& model) {
    const auto loss = model(rows()).square().mean();
    accelerator.backward(loss, {.retain_graph = true});
    accelerator.backward(loss);
  });
}

TEST(GradientCheckpointing, ServesSecondDerivatives) {
  expect_same_gradients<testing::CustomFunctionBlockImpl>(
      [](Accelerator& accelerator, auto& model) {
        const auto x = rows().requires_grad_(true);
        const auto score = torch::tanh(model(x)).sum();
        const auto slope = torch::autograd::grad({score}, {x}, {}, true, /*create_graph=*/true)[0];
        accelerator.backward(slope.square().mean() + score);
      });
}

TEST(GradientCheckpointing, ServesSeveralForwardsBeforeOneBackward) {
  expect_same_gradients([](Accelerator& accelerator, auto& model) {
    const auto first = model(rows()), second = model(rows());
    accelerator.backward((first * second).mean());
  });
}

TEST(GradientCheckpointing, ServesFrozenLayers) {
  expect_same_gradients([](Accelerator& accelerator, auto& model) {
    for (auto& parameter : model->layers[0]->parameters()) parameter.set_requires_grad(false);
    accelerator.backward(model(rows()).square().mean());
  });
}

TEST(GradientCheckpointing, TouchesNothingWithoutGradients) {
  auto accelerator = checkpointing();
  auto model = accelerator.prepare(std::make_shared<StackImpl<AttentionBlockImpl>>());
  const torch::NoGradGuard no_grad;
  const testing::CountedMemory memory;
  (void)model(rows());
  EXPECT_EQ(memory.live(), 0U);
}

// Wide enough for the library that the processor's table chooses.
struct WideBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(up(x.repeat({1, 1, 16}))); }
  torch::nn::Linear up = register_module("up", torch::nn::Linear(16 * kWidth, kWidth * 4));
};

struct WideNetImpl : testing::ForeignModule {
  at::Tensor forward(const at::Tensor& x) override {
    return second->forward(first->forward(x).narrow(2, 0, kWidth));
  }
  std::shared_ptr<WideBlockImpl> first =
      register_module("first", std::make_shared<WideBlockImpl>());
  std::shared_ptr<WideBlockImpl> second =
      register_module("second", std::make_shared<WideBlockImpl>());
};

TEST(GradientCheckpointing, MultipliesAgainByTheSameLibrary) {
  std::vector<std::vector<at::Tensor>> found;
  for (const bool recomputes : {false, true}) {
    Accelerator accelerator({.cpu = true});
    if (recomputes) accelerator = checkpointing({.units = {"WideBlock"}});
    torch::manual_seed(1);
    auto net = std::make_shared<WideNetImpl>();
    auto model = accelerator.prepare(net);
    model(rows(64)).square().mean().backward();  // Not by the Accelerator.
    found.push_back(gradients_of(*net));
  }
  expect_equal(found[0], found[1]);
}

// --- TorchScript ---------------------------------------------------------------------------------

torch::jit::Module scripted() {
  torch::manual_seed(1);
  torch::jit::Module net("Net");
  std::string calls;
  for (int i = 0; i < 3; ++i) {
    torch::jit::Module block("Block" + std::to_string(i));
    block.register_parameter("w", (torch::randn({kWidth, kWidth}) * 0.2).requires_grad_(), false);
    block.register_parameter("b", torch::zeros({kWidth}, torch::requires_grad()), false);
    block.define(R"(
      def forward(self, x):
        y = torch.matmul(torch.layer_norm(x, [16]), self.w) + self.b
        y = torch.dropout(torch.relu_(y), 0.1, True)
        return x + torch.tanh(y) * torch.sigmoid(y)
    )");
    net.register_module("b" + std::to_string(i), block);
    calls += "  x = self.b" + std::to_string(i) + ".forward(x)\n";
  }
  net.define("def forward(self, x):\n" + calls + "  return x\n");
  return net;
}

TEST(GradientCheckpointing, ServesTorchScript) {
  for (int round = 0; round < 4; ++round) {  // The executor rewrites the graph after some rounds.
    std::vector<std::vector<at::Tensor>> found;
    std::vector<std::size_t> held;
    for (const bool recomputes : {false, true}) {
      Accelerator accelerator({.cpu = true});
      if (recomputes) accelerator = checkpointing({.units = {"b*"}});
      auto net = scripted();
      auto model = accelerator.prepare(net);
      for (int i = 0; i < round; ++i) (void)model({rows()});
      torch::manual_seed(5);
      const auto x = rows(256);
      const testing::CountedMemory memory;
      const auto loss = model({x}).toTensor().square().mean();
      held.push_back(memory.live());
      accelerator.backward(loss);
      auto& gradients = found.emplace_back();
      for (const auto& parameter : net.parameters()) gradients.push_back(parameter.grad().clone());
    }
    expect_equal(found[0], found[1]);
    EXPECT_LT(2 * held[1], held[0]) << round;
  }
}

// --- checkpoint() --------------------------------------------------------------------------------

TEST(Checkpoint, ComputesAFunctionAgain) {
  const auto weight = torch::randn({kWidth, kWidth}, torch::requires_grad());
  const auto x = rows(256);
  const auto function = [&](const at::Tensor& rows) {
    return torch::dropout(torch::gelu(torch::matmul(rows, weight)), 0.5, true).tanh();
  };
  std::vector<at::Tensor> found;
  std::vector<std::size_t> held;
  for (const bool recomputes : {false, true}) {
    torch::manual_seed(3);
    const testing::CountedMemory memory;
    const auto loss = (recomputes ? checkpoint(function, x) : function(x)).sum();
    held.push_back(memory.live());
    found.push_back(torch::autograd::grad({loss}, {weight})[0]);
  }
  EXPECT_TRUE(found[0].equal(found[1]));
  EXPECT_LT(4 * held[1], held[0]);
}

TEST(Checkpoint, ReturnsWhatTheFunctionReturns) {
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto [a, b] = checkpoint([](const at::Tensor& t) { return std::pair(t.exp(), t * t); }, x);
  (a + b).sum().backward();
  EXPECT_TRUE(torch::allclose(x.grad(), torch::full({2}, std::exp(1.0) + 2)));
  checkpoint([](const at::Tensor&) {}, x);
}

// --- What others found -----------------------------------------------------------------------------

using Function = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;

// The gradients of function(x, weight), plainly and by checkpoint(), are equal to the bit.
void expect_same(const Function& function) {
  std::vector<std::vector<at::Tensor>> found;
  for (const bool recomputes : {false, true}) {
    torch::manual_seed(7);
    const auto x = torch::randn({6, kWidth}).requires_grad_();
    const auto weight = torch::randn({kWidth, kWidth}).requires_grad_();
    const auto y = recomputes ? checkpoint(function, x, weight) : function(x, weight);
    found.push_back(torch::autograd::grad({y.square().sum()}, {x, weight}));
  }
  expect_equal(found[0], found[1]);
}

TEST(Checkpoint, MayWriteAValueOfTheFunctionAroundIt) {
  for (int seed = 0; seed < 6; ++seed) {
    expect_same([](const at::Tensor& x, const at::Tensor& weight) {
      at::Tensor hidden = torch::matmul(x, weight);
      const auto inner = checkpoint([&](const at::Tensor& t) { return t.relu_().tanh(); }, hidden);
      return torch::sigmoid(hidden) * inner;
    });
  }
}

TEST(Checkpoint, SeesWritesThroughSeveralViewsFromOutside) {
  const auto buffer = torch::ones({2, kWidth});
  const auto top = buffer.narrow(0, 0, 1);
  expect_same([&](const at::Tensor& x, const at::Tensor& weight) {
    const auto hidden = torch::matmul(x, weight);
    const auto view = top.view({kWidth});
    buffer.narrow(0, 0, 1).add_(hidden.detach().mean(0));
    const auto scaled = hidden + view;
    buffer.fill_(1);
    return torch::tanh(scaled);
  });
}

TEST(Checkpoint, TakesGarbageThatAProductHides) {
  expect_same([](const at::Tensor& x, const at::Tensor& weight) {
    const auto keys = torch::matmul(x, weight).unsqueeze(0);
    const auto scores = torch::baddbmm(torch::empty({1, 6, 6}), keys, keys.transpose(1, 2),
                                       /*beta=*/0, /*alpha=*/0.5);
    return torch::softmax(scores, -1).matmul(keys);
  });
}

TEST(Checkpoint, TakesTensorsWithoutMemoryAndAnotherDefaultType) {
  expect_same([](const at::Tensor& x, const at::Tensor& weight) {
    const auto before = c10::get_default_dtype();
    torch::set_default_dtype(caffe2::TypeMeta::Make<double>());
    const auto noise = torch::rand({kWidth});
    torch::set_default_dtype(before);
    return torch::tanh(torch::matmul(x, weight) * noise.to(torch::kFloat) +
                       torch::_efficientzerotensor({6, kWidth}));
  });
}

TEST(Checkpoint, RefusesValuesThatWereWrittenByHandInTheMiddle) {
  const auto x = torch::randn({6, kWidth}).requires_grad_();
  const auto y = checkpoint(
      [](const at::Tensor& input) {
        const auto mask = torch::zeros({6, kWidth});
        mask.accessor<float, 2>()[3][1] = 5;
        return torch::tanh(input * mask);
      },
      x);
  expect_has(message_of<UsageError>([&] { y.sum().backward(); }), "aten::zeros");
}

struct LoopingBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const torch::NoGradGuard no_grad;
    for (int i = 0; i < 16; ++i) cache.select(0, i).copy_(x.flatten().narrow(0, 0, 1024));
    const at::AutoGradMode grad(true);
    return layer(x) * cache.mean();
  }
  at::Tensor cache = register_buffer("cache", torch::zeros({16, 1024}));
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

TEST(GradientCheckpointing, CopiesABufferOnceHoweverOftenAUnitWrites) {
  auto accelerator = checkpointing({.units = {"LoopingBlock"}});
  auto model = accelerator.prepare(std::make_shared<StackImpl<LoopingBlockImpl>>(2));
  const auto x = rows(16);
  const testing::CountedMemory memory;
  const auto loss = model(x).square().mean();
  EXPECT_LT(memory.live(), 5U * 16 * 1024 * sizeof(float));
  accelerator.backward(loss);
}

// Changes results of products after the forward, and through a view.
struct ChangedProductBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto hidden = torch::einsum("bij->bji", {first(x)}).transpose(1, 2);
    hidden.select(1, 1).mul_(0.5);
    last = second(torch::tanh(hidden));
    return torch::log_softmax(last, -1) + x;
  }
  at::Tensor last;
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
};

TEST(GradientCheckpointing, ComputesKeptProductsAgainThatWereChanged) {
  std::vector<std::vector<at::Tensor>> found;
  for (const bool recomputes : {false, true}) {
    Accelerator accelerator({.cpu = true});
    if (recomputes) {
      accelerator = checkpointing(
          {.units = {"ChangedProductBlock"}, .keep = GradientCheckpointing::Keep::products});
    }
    torch::manual_seed(1);
    auto net = std::make_shared<StackImpl<ChangedProductBlockImpl>>();
    auto model = accelerator.prepare(net);
    const auto loss = model(rows(40)).square().mean();
    {
      const torch::NoGradGuard no_grad;
      for (const auto& layer : *net->layers)
        layer->as<ChangedProductBlockImpl>()->last.select(2, 3).fill_(-100);
    }
    accelerator.backward(loss);
    found.push_back(gradients_of(*net));
  }
  expect_equal(found[0], found[1]);
}

// --- Units ---------------------------------------------------------------------------------------

std::vector<std::string> units_of(torch::nn::Module& module, const GradientCheckpointing& options) {
  return Recompute(view_of(module), options, std::nullopt).units();
}

TEST(GradientCheckpointing, ChoosesModulesThatRepeat) {
  StackImpl<AttentionBlockImpl> stack(3);
  EXPECT_EQ(units_of(stack, {}), (std::vector<std::string>{"layers.0", "layers.1", "layers.2"}));
  testing::EncoderImpl encoder;
  EXPECT_EQ(units_of(encoder, {}).front(), "encoder.layers.0");
}

TEST(GradientCheckpointing, TakesClassesNamesAndPatterns) {
  StackImpl<AttentionBlockImpl> stack(4);
  EXPECT_EQ(units_of(stack, {.units = {"AttentionBlock"}}).size(), 4U);
  EXPECT_EQ(units_of(stack, {.units = {"layers.1", "layers.3"}}),
            (std::vector<std::string>{"layers.1", "layers.3"}));
  EXPECT_EQ(units_of(stack, {.units = {"layers.*"}}).size(), 4U);
  EXPECT_EQ(units_of(stack, {.units = {"layers.*"}, .every = 3}),
            (std::vector<std::string>{"layers.0", "layers.3"}));
}

TEST(GradientCheckpointing, RefusesUnitsThatAreNotThere) {
  StackImpl<AttentionBlockImpl> stack;
  const auto refusal = [&](const GradientCheckpointing& options) {
    return message_of<ConfigError>([&] { units_of(stack, options); });
  };
  expect_has(refusal({.units = {"AttentionBlok"}}), "units has 'AttentionBlok'");
  expect_has(refusal({.units = {"AttentionBlok"}}), "AttentionBlock");
  expect_has(refusal({.units = {"layers.9"}}), "units has 'layers.9'");
  expect_has(refusal({.units = {"Dropout"}}), "finds no modules");
  expect_has(refusal({.every = 0}), "every is 0; allowed is 1");
  torch::nn::Sequential flat(torch::nn::Linear(2, 2), torch::nn::ReLU(), torch::nn::Linear(2, 2));
  expect_has(message_of<ConfigError>([&] { units_of(*flat, {}); }), "Name some in units");
}

// --- Mistakes ------------------------------------------------------------------------------------

template <typename Block>
std::string refusal_of(const std::function<void(StackImpl<Block>&)>& between) {
  auto accelerator = checkpointing({.units = {"layers.*"}});
  auto net = std::make_shared<StackImpl<Block>>();
  auto model = accelerator.prepare(net);
  const auto loss = model(rows()).square().mean();
  between(*net);
  return message_of<UsageError>([&] { accelerator.backward(loss); });
}

TEST(GradientCheckpointing, RefusesAModuleThatChangedSinceForward) {
  const auto by_operator = refusal_of<AttentionBlockImpl>([](auto& net) {
    const torch::NoGradGuard no_grad;
    net.layers[1]->parameters()[0].add_(1);
  });
  expect_has(by_operator, "the unit layers.1");
  const auto by_data = refusal_of<AttentionBlockImpl>(
      [](auto& net) { net.layers[1]->parameters()[0].data().add_(1); });
  expect_has(by_data, "the unit layers.1");
  expect_has(by_data, "changed between forward and backward");
}

// Writes into its result without an operator.
struct HiddenWriteBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor hidden = layer(x), mask = torch::empty({kWidth});
    if (!writes) return x + torch::tanh(hidden);
    for (int i = 0; i < kWidth; ++i) mask.data_ptr<float>()[i] = static_cast<float>(++calls % 3);
    return x + torch::tanh(hidden * mask);
  }
  int calls = 0;
  bool writes = true;
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

TEST(GradientCheckpointing, RefusesAUnitThatIsNotDeterministic) {
  const auto refusal = refusal_of<HiddenWriteBlockImpl>([](auto&) {});
  expect_has(refusal, "the unit layers.2");
  expect_has(refusal, "not deterministic: aten::empty");
  expect_has(refusal, "leave it out of the units");
}

// Where a rank cannot go on, its peers must not wait for it.
TEST(GradientCheckpointing, TellsThePeersOfAUnitThatIsNotDeterministic) {
  for (const bool is_sharded : {false, true}) {
    testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
      AcceleratorOptions options{
          .cpu = true, .gradient_checkpointing = {{.units = {"layers.*"}}}, .communicator = comm};
      if (is_sharded) options.fsdp_plugin = FullyShardedDataParallelPlugin{};
      Accelerator accelerator(options);
      auto net = std::make_shared<StackImpl<HiddenWriteBlockImpl>>();
      for (const auto& layer : *net->layers)
        layer->as<HiddenWriteBlockImpl>()->writes = comm->rank() == 1;
      auto model = accelerator.prepare(net);
      const auto loss = model(torch::ones({3, kLength, kWidth})).square().mean();
      const auto backward = [&] { accelerator.backward(loss); };
      comm->rank() == 1 ? expect_has(message_of<UsageError>(backward), "not deterministic")
                        : expect_has(message_of<CommError>(backward), "the unit layers.2");
    });
  }
}

struct SpoilingBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto hidden = layer(x).exp();
    const auto result = hidden + x;
    hidden.add_(1);  // exp needs its result.
    return result;
  }
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

TEST(GradientCheckpointing, RefusesAnInPlaceChangeOfWhatAGradientNeeds) {
  expect_has(refusal_of<SpoilingBlockImpl>([](auto&) {}), "changed by an in-place operation");
}

TEST(GradientCheckpointing, SaysWhenMemoryRunsOutInBackward) {
  auto accelerator = checkpointing();
  auto model = accelerator.prepare(std::make_shared<StackImpl<AttentionBlockImpl>>());
  testing::CountedMemory memory;
  const auto loss = model(rows(64)).square().mean();
  memory.fail_from(64 * kLength * kWidth * 3 * sizeof(float));
  std::string message;
  try {
    accelerator.backward(loss);
  } catch (const UsageError& error) {
    message = error.what();
    EXPECT_TRUE(should_reduce_batch_size(error));
  }
  memory.fail_from(0);
  expect_has(message, "of the unit layers.2");
  expect_has(message, "smaller batch");
}

TEST(GradientCheckpointing, RefusesAStepThatIsRecorded) {
  auto accelerator = checkpointing();
  auto model = accelerator.prepare(std::make_shared<StackImpl<AttentionBlockImpl>>());
  const detail::StepRecording recording;
  expect_has(message_of<UsageError>([&] { (void)model(rows()); }), "inside a recorded step");
}

}  // namespace
}  // namespace accelerate
