// Modules as people write them, which know nothing of gradient checkpointing. Each has two or more
// units of a class that ends in "Block", and maps {N, 8, 16} to {N, 8, 16}.
#pragma once

#include <torch/script.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace accelerate::testing {

inline constexpr std::int64_t kWidth = 16;
inline constexpr std::int64_t kLength = 8;

struct ForeignModule : torch::nn::Module {
  virtual at::Tensor forward(const at::Tensor& x) = 0;
};

/// Calls one block after the other, then a linear layer outside of all units.
template <typename BlockImpl>
struct StackImpl : ForeignModule {
  explicit StackImpl(int blocks = 3) {
    for (int i = 0; i < blocks; ++i) layers->push_back(std::make_shared<BlockImpl>());
  }
  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor hidden = x;
    for (const auto& layer : *layers) hidden = layer->template as<BlockImpl>()->forward(hidden);
    return last(hidden);
  }
  torch::nn::ModuleList layers = register_module("layers", torch::nn::ModuleList());
  torch::nn::Linear last = register_module("last", torch::nn::Linear(kWidth, kWidth));
};

struct AttentionBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto parts = qkv(norm(x)).view({x.size(0), kLength, 3, 2, kWidth / 2}).unbind(2);
    const auto attended = torch::scaled_dot_product_attention(
        parts[0].transpose(1, 2), parts[1].transpose(1, 2), parts[2].transpose(1, 2), {},
        is_training() ? 0.2 : 0.0, /*is_causal=*/true);
    const auto mixed = x + drop(out(attended.transpose(1, 2).reshape(x.sizes())));
    return mixed + drop(down(torch::gelu(up(norm_2(mixed)))));
  }
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  torch::nn::LayerNorm norm_2 =
      register_module("norm_2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(kWidth, 4 * kWidth));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(4 * kWidth, kWidth));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(0.3));
};

struct InPlaceBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor hidden = first(x).mul_(0.5);
    hidden.select(1, 0).add_(1);
    hidden.index_put_({torch::indexing::Slice(), 2}, hidden.select(1, 3).detach());
    hidden.relu_();
    return second(hidden).add_(x);
  }
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
};

/// Changes its own input, which the block before it made.
struct InPlaceInputBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor hidden = x.requires_grad() && !x.is_leaf() ? x : x.clone();
    return layer(hidden.relu_()) + 0.1 * hidden;
  }
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

struct ClippedSquare : torch::autograd::Function<ClippedSquare> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::Tensor bounded = x.clamp(-2, 2);
    context->save_for_backward({x, bounded});
    return bounded * bounded;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * 2 * saved[1] * (saved[0].abs() < 2)};
  }
};

struct CustomFunctionBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    return x + torch::tanh(ClippedSquare::apply(layer(x)) * 0.3);
  }
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

struct BranchingBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor hidden = layer(x);
    const double mean = hidden.mean().item<double>();
    if (mean > 0) hidden = torch::sigmoid(hidden) * mean;
    const auto chosen = hidden.flatten(0, 1).index_select(0, torch::randperm(x.size(0) * kLength));
    return x + torch::where(chosen.view_as(x) > 0, hidden, hidden * 0.1);
  }
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

struct BatchNormBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto mixed = torch::relu(norm(mix(x.transpose(1, 2))));
    return x + mixed.transpose(1, 2);
  }
  torch::nn::Conv1d mix = register_module(
      "mix", torch::nn::Conv1d(torch::nn::Conv1dOptions(kWidth, kWidth, 3).padding(1)));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(kWidth));
};

/// A buffer that it reads, writes and reads again, also through views and data().
struct StatefulBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor before = mean * 1.0;
    const at::Tensor view = mean.narrow(0, 0, 4);
    {
      const torch::NoGradGuard no_grad;
      mean.mul_(0.9).add_(x.mean({0, 1}).detach() * 0.1);
      view.add_(0.01);
    }
    at::Tensor hidden = layer(x - mean) * (before + 1).cos();
    hidden.data().mul_(1.5);
    return torch::relu(hidden) + x;
  }
  at::Tensor mean = register_buffer("mean", torch::zeros({kWidth}));
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(kWidth, kWidth));
};

struct RecurrentBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return x + std::get<0>(lstm(x)); }
  torch::nn::LSTM lstm = register_module(
      "lstm",
      torch::nn::LSTM(
          torch::nn::LSTMOptions(kWidth, kWidth).num_layers(2).dropout(0.2).batch_first(true)));
};

struct MixtureBlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto rows = x.reshape({-1, kWidth});
    const auto scores = torch::softmax(gate(rows), -1);
    const auto [weights, chosen] = scores.topk(1);
    at::Tensor result = torch::zeros_like(rows);
    for (int i = 0; i < 2; ++i) {
      const auto mine = (chosen.squeeze(1) == i).nonzero().squeeze(1);
      if (mine.numel() == 0) continue;
      auto& expert = i == 0 ? first : second;
      const auto computed = expert(rows.index_select(0, mine)) * weights.index_select(0, mine);
      result = result.index_add(0, mine, computed.to(result.scalar_type()));
    }
    return x + result.view_as(x);
  }
  torch::nn::Linear gate = register_module("gate", torch::nn::Linear(kWidth, 2));
  torch::nn::Linear first = register_module("first", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(kWidth, kWidth));
};

/// One block, called four times, beside a parameter that another unit ties.
struct SharedStackImpl : ForeignModule {
  at::Tensor forward(const at::Tensor& x) override {
    at::Tensor hidden = x;
    for (int i = 0; i < 4; ++i) hidden = block->forward(hidden);
    return other->forward(hidden);
  }
  std::shared_ptr<AttentionBlockImpl> block =
      register_module("block", std::make_shared<AttentionBlockImpl>());
  std::shared_ptr<AttentionBlockImpl> other =
      register_module("other", std::make_shared<AttentionBlockImpl>());
};

/// Outputs of early blocks meet those of late ones.
struct SkippingStackImpl : ForeignModule {
  at::Tensor forward(const at::Tensor& x) override {
    const auto a = first->forward(x), b = second->forward(a);
    return third->forward(b + a) + a * b;
  }
  std::shared_ptr<CustomFunctionBlockImpl> first =
      register_module("first", std::make_shared<CustomFunctionBlockImpl>());
  std::shared_ptr<InPlaceBlockImpl> second =
      register_module("second", std::make_shared<InPlaceBlockImpl>());
  std::shared_ptr<AttentionBlockImpl> third =
      register_module("third", std::make_shared<AttentionBlockImpl>());
};

/// LibTorch's own.
struct EncoderImpl : ForeignModule {
  at::Tensor forward(const at::Tensor& x) override { return encoder(x); }
  torch::nn::TransformerEncoder encoder = register_module(
      "encoder",
      torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(
          torch::nn::TransformerEncoderLayerOptions(kWidth, 2).dim_feedforward(32).dropout(0.1),
          3)));
};

/// Tensors of a module of LibTorch, which TorchScript computes with.
struct ScriptBlockImpl : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", torch::randn({kWidth, kWidth}) * 0.2);
  at::Tensor bias = register_parameter("bias", torch::zeros({kWidth}));
};

struct ScriptedStackImpl : ForeignModule {
  ScriptedStackImpl() {
    std::string calls;
    for (int i = 0; i < 3; ++i) {
      const std::string name = "block" + std::to_string(i);
      const auto block = register_module(name, std::make_shared<ScriptBlockImpl>());
      torch::jit::Module code("Code" + std::to_string(i));
      code.register_parameter("w", block->weight, false);
      code.register_parameter("b", block->bias, false);
      code.define(R"(
        def forward(self, x):
          y = torch.matmul(torch.layer_norm(x, [16]), self.w) + self.b
          y = torch.dropout(torch.relu_(y), 0.1, True)
          if bool(y.mean() > 10.0):
            y = y * 0.5
          return x + torch.tanh(y) * torch.sigmoid(y)
      )");
      script.register_module(name, code);
      calls += "  x = self." + name + ".forward(x)\n";
    }
    script.define("def forward(self, x):\n" + calls + "  return x\n");
  }
  at::Tensor forward(const at::Tensor& x) override { return script.forward({x}).toTensor(); }
  torch::jit::Module script = torch::jit::Module("Net");
};

struct ForeignKind {
  std::string name;
  std::function<std::shared_ptr<ForeignModule>()> make;
  std::vector<std::string> units;
};

template <typename Module>
ForeignKind foreign_kind(const std::string& name, std::vector<std::string> units) {
  return {name, [] { return std::make_shared<Module>(); }, std::move(units)};
}

inline std::vector<ForeignKind> foreign_kinds() {
  return {
      foreign_kind<StackImpl<AttentionBlockImpl>>("Attention", {"AttentionBlock"}),
      foreign_kind<StackImpl<InPlaceBlockImpl>>("InPlace", {"InPlaceBlock"}),
      foreign_kind<StackImpl<InPlaceInputBlockImpl>>("InPlaceInput", {"InPlaceInputBlock"}),
      foreign_kind<StackImpl<CustomFunctionBlockImpl>>("CustomFunction", {"CustomFunctionBlock"}),
      foreign_kind<StackImpl<BranchingBlockImpl>>("Branching", {"BranchingBlock"}),
      foreign_kind<StackImpl<BatchNormBlockImpl>>("BatchNorm", {"BatchNormBlock"}),
      foreign_kind<StackImpl<StatefulBlockImpl>>("Stateful", {"StatefulBlock"}),
      foreign_kind<StackImpl<RecurrentBlockImpl>>("Recurrent", {"RecurrentBlock"}),
      foreign_kind<StackImpl<MixtureBlockImpl>>("Mixture", {"MixtureBlock"}),
      foreign_kind<SharedStackImpl>("Shared", {"AttentionBlock"}),
      foreign_kind<SkippingStackImpl>("Skipping", {"first", "second", "third"}),
      foreign_kind<ScriptedStackImpl>("Script", {"ScriptBlock"}),
      foreign_kind<EncoderImpl>("Encoder", {"TransformerEncoderLayer"})};
}

}  // namespace accelerate::testing
