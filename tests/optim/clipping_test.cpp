// Clipping against torch.nn.utils (tests/reference/clipping.py), and what it does with bad input.
#include "accelerate/optim/clipping.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <sstream>

#include "accelerate/base/error.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int kStride = 199, kGoldenRows = 543;

at::ScalarType dtype_of(const std::string& name) {
  const std::map<std::string, at::ScalarType> dtypes = {
      {"fp64", at::kDouble}, {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
  return dtypes.at(name);
}

std::vector<std::string> split(const std::string& text) {
  std::istringstream source(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(source, part, ',');) parts.push_back(part);
  return parts;
}

at::Tensor leaf_with(const at::Tensor& gradient) {
  auto leaf = torch::zeros_like(gradient).set_requires_grad(true);
  leaf.mutable_grad() = gradient;
  return leaf;
}

// The formula of clipping.py.
at::Tensor gradient_of(std::int64_t seed, std::int64_t number, std::int64_t size,
                       const std::string& special) {
  std::vector<double> values;
  for (std::int64_t k = 0; k < size; ++k) {
    values.push_back(static_cast<double>((k * 7919 + number * 104729 + seed) % 2003 - 1001) / 64);
  }
  const bool plain = special == "none" || special == "zero";
  if (number == 0 && !values.empty() && !plain) values[0] = std::strtod(special.c_str(), nullptr);
  const auto result = torch::tensor(values, at::kDouble);
  return special == "zero" ? torch::zeros_like(result) : result;
}

struct GoldenRow {
  std::string function, dtypes, special;
  std::vector<std::string> sizes;
  std::int64_t seed = 0;
  double norm_type = 0, bound = 0;
  std::string norm_dtype;
  double norm = 0;
  std::vector<double> values;
};

GoldenRow parse(const std::string& line) {
  std::istringstream source(line);
  GoldenRow row;
  std::string sizes, norm_type, bound, bar, norm, value;
  source >> row.function >> row.dtypes >> sizes >> row.special >> row.seed >> norm_type >> bound >>
      bar >> row.norm_dtype >> norm >> bar;
  row.sizes = split(sizes);
  row.norm_type = std::strtod(norm_type.c_str(), nullptr);
  row.bound = std::strtod(bound.c_str(), nullptr);
  row.norm = std::strtod(norm.c_str(), nullptr);
  while (source >> value) row.values.push_back(std::strtod(value.c_str(), nullptr));
  return row;
}

// Reductions add up in the order that suits the processor, so the last bits of a norm are those of
// the machine that wrote the file; the steps of the dtypes are 2^-52, 2^-23, 2^-10, 2^-7.
double tolerance_of(const std::string& dtypes) {
  if (dtypes.find("bf16") != std::string::npos) return 1.6e-2;
  if (dtypes.find("fp16") != std::string::npos) return 2e-3;
  return dtypes.find("fp32") != std::string::npos ? 2e-6 : 1e-14;
}

void expect_near(double ours, double theirs, double tolerance, const std::string& line) {
  if (std::isnan(theirs) || std::isinf(theirs) || tolerance == 0) {
    EXPECT_TRUE(ours == theirs || (std::isnan(ours) && std::isnan(theirs)))
        << ours << " is not " << theirs << "\n"
        << line;
  } else {
    EXPECT_NEAR(ours, theirs, tolerance * std::abs(theirs)) << line;
  }
}

void check_row(const std::string& line, bool exact) {
  const auto row = parse(line);
  const auto dtypes = split(row.dtypes);
  std::vector<at::Tensor> leaves;
  for (std::size_t i = 0; i < row.sizes.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i);
    const auto gradient = gradient_of(row.seed, number, std::stol(row.sizes[i]), row.special);
    leaves.push_back(leaf_with(gradient.to(dtype_of(dtypes[i % dtypes.size()]))));
  }
  // The original visits the dtypes of a mixture in the order of a hash table.
  const double tolerance = exact && dtypes.size() == 1 ? 0 : tolerance_of(row.dtypes);
  if (row.function == "norm") {
    const auto total = clip_grad_norm_(leaves, row.bound, row.norm_type);
    EXPECT_EQ(total.scalar_type(), dtype_of(row.norm_dtype)) << line;
    EXPECT_EQ(total.dim(), 0);
    expect_near(total.item<double>(), row.norm, tolerance, line);
  } else {
    clip_grad_value_(leaves, row.bound);
  }
  std::size_t next = 0;
  for (const auto& leaf : leaves) {
    const auto gradient = leaf.grad().to(at::kDouble);
    const int stride = gradient.numel() <= 8 ? 1 : kStride;
    for (std::int64_t k = 0; k < gradient.numel(); k += stride) {
      ASSERT_LT(next, row.values.size()) << line;
      expect_near(gradient[k].item<double>(), row.values[next++], tolerance, line);
    }
  }
  EXPECT_EQ(next, row.values.size()) << line;
}

void check_file(const std::string& text, bool exact) {
  std::istringstream file(text);
  int rows = 0;
  for (std::string line; std::getline(file, line); ++rows) check_row(line, exact);
  EXPECT_EQ(rows, kGoldenRows);
}

TEST(Clipping, GivesTheNormsAndGradientsOfTorch) {
  check_file(testing::read_reference("clipping.txt"), /*exact=*/false);
}

TEST(Clipping, GivesTheBitsOfTorchOnThisMachine) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const testing::TemporaryFolder folder;
  const auto output = folder.path() / "clipping.txt";
  const auto run = testing::run_program(
      {testing::reference_python(), testing::reference_path("clipping.py"), "--seed", "77", output},
      {.env = {}, .timeout = std::chrono::seconds(100), .working_directory = {}});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const int threads = at::get_num_threads();
  at::set_num_threads(1);  // as the script does
  std::ifstream file(output);
  check_file({std::istreambuf_iterator<char>(file), {}}, /*exact=*/true);
  at::set_num_threads(threads);
}

TEST(Clipping, MeasuresAndScalesAcrossShapesAsOneVector) {
  const auto a = leaf_with(torch::tensor({3.0})), b = leaf_with(torch::tensor({{0.0, 4.0}}));
  const std::vector<at::Tensor> leaves = {a, torch::zeros({2}, torch::requires_grad()), b,
                                          at::Tensor()};
  EXPECT_DOUBLE_EQ(clip_grad_norm_(leaves, 1.0).item<double>(), 5.0);
  EXPECT_NEAR(clip_grad_norm_(leaves, 1.0).item<double>(), 1.0, 1e-6);
  EXPECT_FALSE(leaves[1].grad().defined());
}

TEST(Clipping, LeavesSmallGradientsAsTheyAre) {
  const auto leaf = leaf_with(torch::tensor({0.3, 0.4}));
  const auto before = leaf.grad()._version();
  EXPECT_NEAR(clip_grad_norm_(leaf, 1.0).item<double>(), 0.5, 1e-7);
  EXPECT_EQ(leaf.grad()._version(), before) << "not even multiplied by 1";
}

TEST(Clipping, AnInfiniteBoundOnlyMeasures) {
  for (const double value : {3.0, kInfinity, kNan}) {
    const auto leaf = leaf_with(torch::tensor({value, 1.0}));
    const auto total = clip_grad_norm_(leaf, kInfinity).item<double>();
    EXPECT_EQ(std::isfinite(total), std::isfinite(value));
    clip_grad_value_(leaf, kInfinity);
    EXPECT_EQ(leaf.grad()[1].item<double>(), 1.0);  // the original makes it NaN beside an infinity
  }
}

TEST(Clipping, OrderZeroCountsElementsNotTensors) {
  const auto a = leaf_with(torch::tensor({3.0, 0.0, 1.0})), b = leaf_with(torch::tensor({2.0}));
  EXPECT_EQ(clip_grad_norm_({a, b}, 10.0, 0).item<double>(), 3.0);
}

// parameters() of a LibTorch module lists a weight that two layers share twice.
TEST(Clipping, TiedWeightsCountOnce) {
  const auto tied = leaf_with(torch::tensor({3.0, 4.0}));
  EXPECT_DOUBLE_EQ(clip_grad_norm_({tied, tied}, 1.0).item<double>(), 5.0);
  EXPECT_NEAR(tied.grad().norm().item<double>(), 1.0, 1e-6);
}

TEST(Clipping, NothingToClipHasNormZero) {
  EXPECT_EQ(clip_grad_norm_(std::vector<at::Tensor>{}, 1.0).item<double>(), 0.0);
  EXPECT_EQ(clip_grad_norm_(at::Tensor(), 1.0).item<double>(), 0.0);
  const auto empty = leaf_with(torch::zeros({0}));
  EXPECT_EQ(clip_grad_norm_(empty, 1.0, kInfinity).item<double>(), 0.0);
  clip_grad_value_(std::vector<at::Tensor>{}, 1.0);
}

at::Tensor sparse_gradient() {
  return torch::sparse_coo_tensor(torch::tensor({{1, 1, 2}}), torch::tensor({{1.0}, {2.0}, {4.0}}),
                                  {4, 1});
}

TEST(Clipping, SparseGradientsCountTheirSums) {
  auto leaf = torch::zeros({4, 1}, torch::requires_grad());
  leaf.mutable_grad() = sparse_gradient();  // 3 and 4
  EXPECT_DOUBLE_EQ(clip_grad_norm_(leaf, 1.0).item<double>(), 5.0);
  EXPECT_NEAR(leaf.grad().to_dense().norm().item<double>(), 1.0, 1e-6);
  leaf.mutable_grad() = sparse_gradient();
  clip_grad_value_(leaf, 3.5);
  EXPECT_TRUE(leaf.grad().to_dense().flatten().equal(torch::tensor({0.0, 3.0, 3.5, 0.0})));
  EXPECT_DOUBLE_EQ(get_total_norm({sparse_gradient()}).item<double>(), 5.0);
}

TEST(Clipping, ComplexGradientsHaveANormAndNoValueClip) {
  auto leaf = torch::zeros({1}, at::TensorOptions(at::kComplexDouble).requires_grad(true));
  leaf.mutable_grad() =
      torch::complex(torch::tensor({3.0}, at::kDouble), torch::tensor({4.0}, at::kDouble));
  EXPECT_DOUBLE_EQ(clip_grad_norm_(leaf, 1.0).item<double>(), 5.0);
  EXPECT_THROW(clip_grad_value_(leaf, 1.0), UsageError);
}

TEST(Clipping, BoundsBeyondADtypesRangeClampToItsGreatest) {
  const auto leaf = leaf_with(torch::tensor({1.0, kInfinity}, at::kHalf));
  clip_grad_value_(leaf, 1e6);  // the original: "value cannot be converted … without overflow"
  EXPECT_EQ(leaf.grad()[1].item<double>(), 65504.0);
}

TEST(Clipping, WorksInsideAndOutsideOfGradMode) {
  const auto leaf = leaf_with(torch::tensor({3.0, 4.0}));
  const auto total = clip_grad_norm_(leaf, 1.0);
  EXPECT_FALSE(total.requires_grad());
  EXPECT_FALSE(leaf.grad().requires_grad());
}

struct BadClip {
  std::string name;
  std::function<void(const at::Tensor&)> call;
  std::vector<std::string> said;
};

TEST(Clipping, BadInputIsASentenceAndChangesNothing) {
  const std::vector<BadClip> table = {
      {"negative max_norm",
       [](const auto& leaf) { clip_grad_norm_(leaf, -0.5); },
       {"max_norm is -0.5", "0 or more"}},
      {"NaN max_norm",
       [](const auto& leaf) { clip_grad_norm_(leaf, kNan); },
       {"max_norm is", "nan"}},
      {"negative infinite max_norm",
       [](const auto& leaf) { clip_grad_norm_(leaf, -kInfinity); },
       {"max_norm is -inf"}},
      {"NaN norm_type",
       [](const auto& leaf) { clip_grad_norm_(leaf, 1.0, kNan); },
       {"norm_type is NaN"}},
      {"negative clip_value",
       [](const auto& leaf) { clip_grad_value_(leaf, -1.0); },
       {"clip_value is -1", "0 or more"}},
      {"NaN clip_value", [](const auto& leaf) { clip_grad_value_(leaf, kNan); }, {"clip_value is"}},
      {"NaN gradient",
       [](const auto& leaf) {
         clip_grad_norm_({leaf_with(torch::ones({3})), leaf_with(torch::full({2}, kNan)), leaf},
                         1.0, 2.0, true);
       },
       {"nan", "number 1 of 3", "[2]", "error_if_nonfinite"}},
      {"infinite gradient",
       [](const auto& leaf) {
         clip_grad_norm_({leaf_with(torch::full({}, kInfinity)), leaf}, 1.0, 2.0, true);
       },
       {"inf", "number 0 of 2"}},
      {"overflow of the norm alone",
       [](const auto& leaf) {
         clip_grad_norm_({leaf_with(torch::full({2}, 3e38)), leaf}, 1.0, 1.0, true);
       },
       {"norm overflows"}}};
  for (const auto& bad : table) {
    const auto leaf = leaf_with(torch::tensor({3.0, -4.0}));
    try {
      bad.call(leaf);
      ADD_FAILURE() << bad.name << " was accepted";
    } catch (const UsageError& error) {
      for (const auto& words : bad.said) {
        EXPECT_NE(std::string(error.what()).find(words), std::string::npos)
            << bad.name << ": " << error.what();
      }
    }
    EXPECT_TRUE(leaf.grad().equal(torch::tensor({3.0, -4.0}))) << bad.name;
  }
}

}  // namespace
}  // namespace accelerate
