// Times forward and backward of a transformer, plain and with gradient checkpointing; the kinds take
// turns in one process. originals/recompute_steps.py does the same with torch.utils.checkpoint.
//
// usage: bench_recompute_steps plain|everything|products|turns WARM_UP_STEPS STEPS
//
// turns: all three, and the parts of the plain step. Otherwise the one kind, for its peak of memory.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include <map>
#include <string>
#include <vector>

#include "benchmarks/programs/measure.h"

namespace {

constexpr std::int64_t kBatch = 8, kTokens = 128, kWidth = 384, kHeads = 6, kLayers = 8;
constexpr double kDropout = 0.1;

torch::nn::LayerNorm norm() {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth}));
}

struct BlockImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) {
    const auto parts = qkv(norm_1(x)).view({x.size(0), kTokens, 3, kHeads, kWidth / kHeads});
    const auto head = [&](int i) { return parts.select(2, i).transpose(1, 2); };
    const auto mixed =
        torch::scaled_dot_product_attention(head(0), head(1), head(2), {}, 0.0, true);
    const auto middle = x + drop(out(mixed.transpose(1, 2).reshape(x.sizes())));
    return middle + drop(down(torch::gelu(up(norm_2(middle)))));
  }
  torch::nn::LayerNorm norm_1 = register_module("norm_1", norm());
  torch::nn::LayerNorm norm_2 = register_module("norm_2", norm());
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(kWidth, 3 * kWidth));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, kWidth));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(kWidth, 4 * kWidth));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(4 * kWidth, kWidth));
  torch::nn::Dropout drop = register_module("drop", torch::nn::Dropout(kDropout));
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  NetImpl() {
    for (int i = 0; i < kLayers; ++i) blocks->push_back(Block());
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& block : *blocks) x = block->as<Block>()->forward(x);
    return x;
  }
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList());
};
TORCH_MODULE(Net);

/// A model of one kind, and how long its steps take.
class Trained {
 public:
  explicit Trained(const std::string& kind)
      : accelerator_({.cpu = true, .gradient_checkpointing = options(kind)}) {
    accelerate::set_seed(42);
    model_ = accelerator_.prepare(Net());
  }

  void step(const at::Tensor& x, bool is_timed) {
    at::Tensor loss;
    const double forward = bench::seconds_of([&] { loss = model_(x).square().mean(); });
    const double backward = bench::seconds_of([&] { accelerator_.backward(loss); });
    for (auto& parameter : model_.parameters()) parameter.mutable_grad().reset();
    if (!is_timed) return;
    forward_.push_back(forward);
    step_.push_back(forward + backward);
  }
  [[nodiscard]] const std::vector<double>& forward_seconds() const { return forward_; }
  [[nodiscard]] const std::vector<double>& step_seconds() const { return step_; }

 private:
  static std::optional<accelerate::GradientCheckpointing> options(const std::string& kind) {
    using Keep = accelerate::GradientCheckpointing::Keep;
    if (kind == "plain") return std::nullopt;
    return accelerate::GradientCheckpointing{.keep = kind == "products" ? Keep::products
                                                                        : Keep::nothing};
  }

  accelerate::Accelerator accelerator_;
  accelerate::Prepared<Net> model_;
  std::vector<double> forward_, step_;
};

void run(const std::string& kind, int warm_up_steps, int steps) {
  std::vector<std::string> kinds{kind};
  if (kind == "turns") kinds = {"plain", "everything", "products"};
  std::map<std::string, Trained> trained;
  for (const auto& each : kinds) trained.try_emplace(each, each);
  const auto x = torch::randn({kBatch, kTokens, kWidth});
  // A small step first, which brings the code of the operators into memory.
  for (const auto& each : kinds) trained.at(each).step(x.narrow(0, 0, 1), false);
  const auto before = bench::status_kib("VmHWM");
  for (int i = 0; i < warm_up_steps + steps; ++i)
    for (const auto& each : kinds) trained.at(each).step(x, i >= warm_up_steps);
  nlohmann::json values{{"before_kib", before}};
  for (const auto& each : kinds) {
    values[each + "_forward_seconds"] = trained.at(each).forward_seconds();
    values[each + "_seconds"] = trained.at(each).step_seconds();
  }
  bench::report(values);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_word(argc, argv, {"WARM_UP_STEPS", "STEPS"},
                              [](const std::string& kind, const std::vector<int>& numbers) {
                                run(kind, numbers[0], numbers[1]);
                              });
}
