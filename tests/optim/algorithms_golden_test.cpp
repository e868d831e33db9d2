// Adafactor, Lion and ScheduleFreeAdamW against the Python originals, and LibTorch's optimizers
// that the Trainer offers too. tests/reference/algorithms_golden.py wrote the values. Tolerance:
// 1e-6, relative to the value or, near zero, to a floor: 0.01; of LibTorch's 0.1, and 1 of its
// fused steps, which contract products with sums.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "accelerate/optim/accelerated_optimizer.h"
#include "accelerate/optim/optimizer_fields.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Leaves = std::vector<at::Tensor>;

constexpr int kGoldenSteps = 20;
constexpr double kGoldenTolerance = 1e-6, kOurFloor = 0.01, kLibTorchFloor = 0.1, kFusedFloor = 1;

// Sets the options that a golden row names.
struct SetOptions {
  const Json& row;
  mutable std::size_t known = 0;

  template <typename T>
  void operator()(const char* name, T& value) const {
    if (!row.contains(name)) return;
    ++known;
    read(row.at(name), value);
  }

 private:
  template <typename T>
  static void read(const Json& from, T& value) {
    value = from.get<T>();
  }
  static void read(const Json& from, std::optional<double>& value) { value = from.get<double>(); }
  static void read(const Json& from, std::optional<std::int64_t>& value) {
    value = from.get<std::int64_t>();
  }
  static void read(const Json& from, std::optional<std::string>& value) {
    value = from.get<std::string>();
  }
};

// A rate of LibTorch's must be given; a row sets it.
template <typename Kind>
typename Kind::Options golden_defaults() {
  if constexpr (std::is_default_constructible_v<typename Kind::Options>)
    return {};
  else
    return typename Kind::Options(1.0);
}

template <typename Kind>
std::unique_ptr<torch::optim::Optimizer> make_of(const Leaves& leaves, const Json& row) {
  auto options = golden_defaults<Kind>();
  SetOptions field{row};
  Kind::options(options, field);
  EXPECT_EQ(field.known, row.size()) << row.dump();
  return std::make_unique<typename Kind::Optimizer>(leaves, options);
}

std::unique_ptr<torch::optim::Optimizer> make_golden(const Leaves& leaves, const Json& row) {
  std::unique_ptr<torch::optim::Optimizer> made;
  detail::any_optimizer_kind([&]<typename Kind>(Kind) {
    if (row.at("class").get<std::string>() != Kind::name) return false;
    made = make_of<Kind>(leaves, row.at("options"));
    return true;
  });
  return made;
}

at::ScalarType golden_dtype(const Json& row) {
  const auto name = row.at("dtype").get<std::string>();
  if (name == "bf16") return at::kBFloat16;
  return name == "fp16" ? at::kHalf : at::kFloat;
}

// The formulas of the script, for the parameters of one row.
struct GoldenNumbers {
  explicit GoldenNumbers(const Json& row)
      : seed(row.at("seed").get<std::int64_t>()),
        special(row.at("special").get<std::string>()),
        dtype(golden_dtype(row)) {
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(shapes.size()); ++j)
      leaves.push_back(numbers(j, 5741, j * 86028 + seed * 97, {1009, 504, 256}));
    for (auto& leaf : leaves) leaf.set_requires_grad(true);
  }

  void set_gradients(std::int64_t step) const {
    for (std::int64_t j = 0; j < static_cast<std::int64_t>(shapes.size()); ++j) {
      at::Tensor& gradient = leaves[j].mutable_grad();
      gradient = numbers(j, 7919, j * 104729 + step * 15485863 + seed * 31337, {2003, 1001, 64});
      if (special != "gaps") continue;
      if (j == 1) gradient.zero_();
      if (j == 3 || (j == 2 && step % 3 == 0)) gradient = at::Tensor();
    }
  }

  struct Range {
    std::int64_t modulus, middle, divisor;
  };
  [[nodiscard]] at::Tensor numbers(std::int64_t index, std::int64_t factor, std::int64_t shift,
                                   Range range) const {
    const auto shape = shapes[index];
    const auto k = torch::arange(c10::multiply_integers(shape), at::kLong);
    const auto values = (k * factor + shift).remainder(range.modulus) - range.middle;
    return (values.to(at::kDouble) / range.divisor).view(shape).to(dtype);
  }

  std::vector<std::vector<std::int64_t>> shapes = {{}, {5}, {4, 6}, {2, 3, 2, 3}, {1, 7}};
  std::int64_t seed;
  std::string special;
  at::ScalarType dtype;
  mutable Leaves leaves = {};
};

// The greatest distance of the leaves from `expected`, in units of the allowed one.
double golden_error(const Leaves& leaves, const Json& expected, double floor) {
  double worst = 0;
  std::size_t at = 0;
  for (const auto& leaf : leaves) {
    const auto flat = leaf.detach().to(at::kDouble).reshape({-1}).contiguous();
    for (std::int64_t i = 0; i < flat.numel(); ++i) {
      const double value = flat.data_ptr<double>()[i], golden = expected.at(at++).get<double>();
      const double unit = kGoldenTolerance * std::max(std::abs(golden), floor);
      worst = std::isfinite(value) ? std::max(worst, std::abs(value - golden) / unit) : 1e300;
    }
  }
  EXPECT_EQ(at, expected.size());
  return worst;
}

// Twenty steps as the script makes them. `prepared`: through a handle, which fuses what it can.
void run_golden(const Json& row, bool prepared) {
  const GoldenNumbers numbers(row);
  const auto optimizer = make_golden(numbers.leaves, row);
  ASSERT_NE(optimizer, nullptr);
  AcceleratedOptimizer handle(*optimizer, std::make_shared<GradientState>());
  const bool ours = std::set<std::string>{"Adafactor", "Lion", "ScheduleFreeAdamW"}.contains(
      row.at("class").get<std::string>());
  const double floor = ours ? kOurFloor : prepared ? kFusedFloor : kLibTorchFloor;
  auto* const modal = dynamic_cast<ModalOptimizer*>(optimizer.get());
  for (int step = 0; step < kGoldenSteps; ++step) {
    numbers.set_gradients(step);
    if (numbers.special == "schedule") {
      const double rate = row.at("options").at("lr").get<double>();
      optimizer->param_groups()[0].options().set_lr(rate * (1 - step / 40.0));
    }
    if (modal != nullptr) modal->train();
    prepared ? handle.step() : optimizer->step();
    const bool evaluates = step == 0 || step == 4 || step == 5 || step == 13;
    if (numbers.special == "modes" && evaluates) handle.eval();
  }
  EXPECT_LE(golden_error(numbers.leaves, row.at("values"), floor), 1) << row.dump().substr(0, 200);
  if (modal == nullptr) return;
  modal->eval();
  EXPECT_LE(golden_error(numbers.leaves, row.at("evaluation"), floor), 1)
      << row.dump().substr(0, 200);
}

void run_goldens(const std::set<std::string>& classes, bool prepared) {
  const Json all = Json::parse(testing::read_reference("algorithms_golden.json"));
  int compared = 0;
  for (const auto& row : all.at("rows")) {
    if (!classes.contains(row.at("class").get<std::string>())) continue;
    run_golden(row, prepared);
    ++compared;
  }
  EXPECT_GE(compared, 10);
}

TEST(AlgorithmGoldens, AdafactorIsTransformers) {
  run_goldens({"Adafactor"}, false);
}
TEST(AlgorithmGoldens, LionIsBitsandbytes) {
  run_goldens({"Lion"}, false);
}
TEST(AlgorithmGoldens, ScheduleFreeAdamWIsThePackages) {
  run_goldens({"ScheduleFreeAdamW"}, false);
}
TEST(AlgorithmGoldens, LibTorchsAreTheirPythons) {
  run_goldens({"SGD", "Adagrad", "RMSprop", "AdamW"}, false);
}
TEST(AlgorithmGoldens, AllAreTheOriginalsUnderPrepare) {
  run_goldens({"Adafactor", "Lion", "ScheduleFreeAdamW", "SGD", "Adagrad", "RMSprop", "AdamW"},
              true);
}

}  // namespace
}  // namespace accelerate
