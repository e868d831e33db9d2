// Muon against torch.optim.Muon, which runs at test time with the same LibTorch: parameters and
// state agree in every bit. What else an optimizer of algorithms/ must do: algorithms_test.cpp.
#include "accelerate/optim/algorithms/muon.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/optimizer_state.h"
#include "accelerate/optim/schedules/one_cycle_lr.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/errors.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Leaves = std::vector<at::Tensor>;
using testing::message_of;

// As the script; sums of products depend on the number of threads.
struct OneThread {
  OneThread() { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(threads); }
  int threads = at::get_num_threads();
};

MuonOptions options_of(const Json& row) {
  MuonOptions options;
  const auto set = [&]<typename T>(const char* name, std::type_identity<T>, const auto& setter) {
    if (row.contains(name)) setter(row.at(name).get<T>());
  };
  using Number = std::type_identity<double>;
  set("lr", Number(), [&](double value) { options.lr(value); });
  set("weight_decay", Number(), [&](double value) { options.weight_decay(value); });
  set("momentum", Number(), [&](double value) { options.momentum(value); });
  set("eps", Number(), [&](double value) { options.eps(value); });
  set("nesterov", std::type_identity<bool>(), [&](bool value) { options.nesterov(value); });
  set("ns_steps", std::type_identity<int>(), [&](int value) { options.ns_steps(value); });
  set("adjust_lr_fn", std::type_identity<std::string>(),
      [&](const std::string& value) { options.adjust_lr_fn(value); });
  set("ns_coefficients", std::type_identity<std::tuple<double, double, double>>(),
      [&](const auto& value) { options.ns_coefficients(value); });
  return options;
}

// A case of the script, and the same steps here.
struct LiveCase {
  LiveCase(const Json& row, const std::filesystem::path& file) : row(row) {
    for (auto& item : load_tensors(file)) tensors.emplace(item.name, item.tensor);
    for (int k = 0; tensors.contains(name(k, "before")); ++k)
      leaves.push_back(tensors.at(name(k, "before")).clone().set_requires_grad(true));
  }

  static std::string name(std::size_t k, const std::string& what) {
    return std::to_string(k) + "." + what;
  }

  // `prepared`: through the handle that prepare() makes.
  void run(bool prepared) const {
    Muon muon(leaves, options_of(row.at("options")));
    AcceleratedOptimizer handle(muon, std::make_shared<GradientState>());
    const std::vector<double> rates = row.at("rates");
    for (std::size_t step = 0; step < rates.size(); ++step) {
      for (std::size_t k = 0; k < leaves.size(); ++k) {
        const auto found = tensors.find(name(k, "gradient." + std::to_string(step)));
        leaves[k].mutable_grad() = found == tensors.end() ? at::Tensor() : found->second;
      }
      muon.param_groups()[0].options().set_lr(rates[step]);
      prepared ? handle.step() : muon.step();
    }
    compare(optimizer_state_dict(muon, {}));
  }

  void compare(const StateDict& state) const {
    for (std::size_t k = 0; k < leaves.size(); ++k) {
      expect_bits(leaves[k].detach(), tensors.at(name(k, "after")), k);
      const auto* own = state.at("state").find("param_groups.0." + std::to_string(k));
      const auto theirs = tensors.find(name(k, "momentum_buffer"));
      ASSERT_EQ(own != nullptr, theirs != tensors.end()) << k;
      if (own != nullptr)
        expect_bits(own->at("momentum_buffer").to<at::Tensor>(), theirs->second, k);
    }
    for (const auto& entry : state.at("param_groups").list().at(0).dict())
      EXPECT_TRUE(entry.first == "params" || row.at("saved").contains(entry.first)) << entry.first;
    EXPECT_EQ(state.at("param_groups").list().at(0).dict().size(), row.at("saved").size() + 1);
  }

  void expect_bits(const at::Tensor& found, const at::Tensor& expected, std::size_t k) const {
    EXPECT_EQ(found.scalar_type(), expected.scalar_type());
    EXPECT_TRUE(torch::equal(found, expected))
        << "parameter " << k << " is off by " << (found - expected).abs().max().item<double>()
        << ": " << row.dump();
  }

  const Json& row;
  std::map<std::string, at::Tensor> tensors;
  mutable Leaves leaves;
};

TEST(Muon, GivesTheBitsOfTorchOnThisMachine) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const testing::TemporaryFolder folder;
  const char* const seed = std::getenv("ACCELERATE_RANDOM_SEED");
  const auto wrote = testing::run_program(
      {testing::reference_python(), testing::reference_path("muon_live.py"), folder.path(),
       "--seed", seed == nullptr ? "77" : seed},
      {.env = {}, .timeout = std::chrono::seconds(100), .working_directory = {}});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  const Json rows =
      Json::parse(read_file(real_file_system(), folder.path() / "cases.json", 10'000'000));
  ASSERT_GE(rows.size(), 30U);
  const OneThread one_thread;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const bool prepared : {false, true})
      LiveCase(rows[i], folder.path() / (std::to_string(i) + ".safetensors")).run(prepared);
  }
}

at::Tensor matrix(at::IntArrayRef shape, double pace = 0.7) {
  return torch::sin(torch::arange(c10::multiply_integers(shape)) * pace + 1.0)
      .to(at::kFloat)
      .view(shape);
}

// Singular values differ by a factor of 10^4 before.
TEST(Muon, StepsEquallyFarInEachDirection) {
  const auto leaf = torch::zeros({12, 8}, torch::requires_grad());
  const auto [u, s, vh] = torch::linalg_svd(matrix({12, 8}), /*full_matrices=*/false);
  leaf.mutable_grad() = u.matmul(torch::logspace(0, -2, 8).diag()).matmul(vh);
  Muon muon({leaf}, MuonOptions(1.0).adjust_lr_fn("original").ns_steps(8));
  muon.step();
  const auto lengths = torch::linalg_svdvals(leaf.detach() / std::sqrt(12.0 / 8.0));
  EXPECT_GT(lengths.min().item<double>(), 0.5);
  EXPECT_LT(lengths.max().item<double>(), 1.5);
}

// The original's buffer is divided by its norm here, because it is taken for a copy.
TEST(Muon, KeepsTheAverageInBf16WithoutNesterov) {
  for (const auto& shape : std::vector<std::vector<std::int64_t>>{{4, 6}, {6, 4}}) {
    const auto leaf = torch::zeros(shape, at::kBFloat16).set_requires_grad(true);
    Muon muon({leaf}, MuonOptions().nesterov(false));
    auto average = torch::zeros(shape, at::kBFloat16);
    for (int step = 0; step < 3; ++step) {
      leaf.mutable_grad() = (matrix(shape, 0.7 + step) * 100).to(at::kBFloat16);
      average.lerp_(leaf.grad(), 1 - 0.95);
      muon.step();
    }
    const auto state = optimizer_state_dict(muon, {}).at("state").at("param_groups.0.0");
    EXPECT_TRUE(torch::equal(state.at("momentum_buffer").to<at::Tensor>(), average));
  }
}

TEST(Muon, RefusesParametersThatAreNoRealMatrices) {
  for (const auto& leaf : {torch::ones({5}), torch::ones({2, 3, 4}), torch::ones({}),
                           torch::ones({2, 3}, at::kComplexFloat)}) {
    const auto message = message_of<UsageError>([&] { Muon({torch::ones({2, 2}), leaf}); });
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "AdamW", message);
    std::ostringstream shape;
    shape << "the shape " << leaf.sizes();
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, shape.str(), message);
  }
}

TEST(Muon, RefusesThemInGroupsThatComeLater) {
  const auto first = torch::ones({2, 2}, torch::requires_grad());
  const auto second = torch::ones({5}, torch::requires_grad());
  const torch::optim::OptimizerParamGroup group({second});
  Muon direct({first});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "shape [5]",
                      message_of<UsageError>([&] { direct.add_param_group(group); }));
  EXPECT_EQ(direct.param_groups().size(), 1U);
  Muon prepared({first});
  AcceleratedOptimizer handle(prepared, std::make_shared<GradientState>());
  handle.add_param_group(group);
  second.mutable_grad() = torch::ones({5});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "shape [5]",
                      message_of<UsageError>([&] { handle.step(); }));
}

TEST(Muon, RefusesOptionsOutOfRange) {
  const auto refusal = [](const MuonOptions& options) {
    return message_of<ConfigError>([&] { Muon({torch::ones({2, 2})}, options); });
  };
  const std::map<std::string, MuonOptions> wrong = {
      {"lr of Muon is -0.1", MuonOptions(-0.1)},
      {"weight_decay of Muon is -1", MuonOptions().weight_decay(-1)},
      {"momentum of Muon is nan", MuonOptions().momentum(NAN)},
      {"eps of Muon is -1", MuonOptions().eps(-1)},
      {"ns_steps of Muon is 100", MuonOptions().ns_steps(100)},
      {"ns_steps of Muon is -1", MuonOptions().ns_steps(-1)},
      {"adjust_lr_fn of Muon is 'rms'", MuonOptions().adjust_lr_fn("rms")}};
  for (const auto& [says, options] : wrong)
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, refusal(options));
}

// As the original, which cycles what its optimizer calls "momentum".
TEST(Muon, HasItsMomentumCycled) {
  Muon muon({torch::ones({2, 2})}, MuonOptions().momentum(0.5));
  OneCycleLR schedule(muon, {.max_lr = 0.1, .total_steps = 10});
  EXPECT_EQ(static_cast<MuonOptions&>(muon.param_groups()[0].options()).momentum(), 0.95);
  for (int step = 0; step < 2; ++step) schedule.step();
  EXPECT_EQ(static_cast<MuonOptions&>(muon.param_groups()[0].options()).momentum(), 0.85);
}

TEST(Muon, StepsOverMatricesWithoutElements) {
  const auto leaf = torch::ones({3, 0}, torch::requires_grad());
  leaf.mutable_grad() = torch::ones({3, 0});
  Muon({leaf}).step();
}

}  // namespace
}  // namespace accelerate
