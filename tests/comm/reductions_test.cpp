// reduce of nested values beside Python Accelerate's: every reduction, dtype, scale and engine.
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::kind_and_message_of;
using testing::run_ranks;
using NestedValue = std::map<std::string, std::vector<std::tuple<at::Tensor>>>;

ReduceOp op_named(const std::string& name) {
  for (const auto op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max}) {
    if (to_string(op) == name) return op;
  }
  throw std::runtime_error("no reduction " + name);
}

at::ScalarType dtype_named(const std::string& name) {
  static const std::map<std::string, at::ScalarType> kDtypes = {{"bool", at::kBool},
                                                                {"uint8", at::kByte},
                                                                {"int8", at::kChar},
                                                                {"int32", at::kInt},
                                                                {"int64", at::kLong},
                                                                {"float16", at::kHalf},
                                                                {"bfloat16", at::kBFloat16},
                                                                {"float32", at::kFloat},
                                                                {"float64", at::kDouble},
                                                                {"complex64", at::kComplexFloat},
                                                                {"complex128", at::kComplexDouble}};
  return kDtypes.at(name);
}

at::Tensor own_values(const Communicator& comm, at::ScalarType dtype) {
  return torch::tensor({comm.rank(), 1, 2 + 2 * comm.rank(), 3}, at::kLong).to(dtype);
}

at::Tensor reduced(Communicator& comm, const at::Tensor& tensor, ReduceOp op, double scale = 1.0) {
  const NestedValue value = {{"nested", {{tensor}}}};
  return std::get<0>(reduce(comm, value, op, scale).at("nested").at(0));
}

void expect_refused(Communicator& comm, const at::Tensor& tensor, ReduceOp op, double scale) {
  const auto text = kind_and_message_of([&] { (void)reduced(comm, tensor, op, scale); });
  EXPECT_TRUE(text.starts_with("UsageError: ")) << text;
  EXPECT_NE(text.find("to(at::kDouble)"), std::string::npos) << text;
}

class Reductions : public ::testing::TestWithParam<Engine> {};
INSTANTIATE_TEST_SUITE_P(Engines, Reductions,
                         ::testing::Values(Engine::gloo, Engine::shared_memory, Engine::hierarchy),
                         [](const auto& info) { return std::string(to_string(info.param)); });

TEST_P(Reductions, GiveTwoRanksWhatPythonGivesThemOrAnError) {
  const auto rows = nlohmann::json::parse(testing::read_reference("reductions.json"));
  ASSERT_GT(rows.size(), 80u);
  const auto body = [&](Communicator& comm) {
    for (const auto& row : rows) {
      SCOPED_TRACE(row.dump());
      const auto op = op_named(row["reduction"]);
      const auto mine = own_values(comm, dtype_named(row["dtype"].get<std::string>()));
      const double scale = row["scale"];
      if (row["values"].is_null()) {
        expect_refused(comm, mine, op, scale);
        continue;
      }
      const auto got = reduced(comm, mine, op, scale);
      EXPECT_EQ(got.scalar_type(), mine.scalar_type());
      const auto expected = torch::tensor(row["values"].get<std::vector<double>>(), at::kDouble);
      EXPECT_TRUE(at::view_as_real(got.to(at::kComplexDouble)).flatten().equal(expected)) << got;
    }
  };
  run_ranks(2, body, {.engine = GetParam()});
}

// Two of 60000 are more than a 16-bit float holds, and their mean is not.
TEST_P(Reductions, OfNarrowFloatsAndLargeIntegersLoseNothingOnTheWay) {
  const auto body = [](Communicator& comm) {
    const auto half = torch::full({3}, 60000.0, at::kHalf);
    EXPECT_TRUE(reduced(comm, half, ReduceOp::mean).equal(half));
    EXPECT_TRUE(reduced(comm, half, ReduceOp::sum, 0.5).equal(half));
    const auto eighth = torch::full({3}, 3.0).to(at::kFloat8_e4m3fn);
    EXPECT_EQ(reduced(comm, eighth, ReduceOp::sum, 2.0).to(at::kFloat)[0].item<float>(), 12.0F);
    const auto large = torch::full({2}, (int64_t{1} << 60) + 1, at::kLong);
    EXPECT_EQ(reduced(comm, large, ReduceOp::sum, 2.0)[0].item<int64_t>(), (int64_t{1} << 62) + 4);
    const auto unsigned_ = torch::full({1}, comm.rank() == 0 ? 7 : -1, at::kLong).to(at::kUInt64);
    const auto least = reduced(comm, unsigned_, ReduceOp::min);
    const auto most = reduced(comm, unsigned_, ReduceOp::max);
    EXPECT_EQ(least.to(at::kLong).item<int64_t>(), 7);
    EXPECT_EQ(most.to(at::kLong).item<int64_t>(), -1) << "the largest number of 64 bits";
  };
  run_ranks(2, body, {.engine = GetParam()});
}

// So that a program finds out in one process what would fail in many.
TEST(ReductionsAlone, RefuseWhatSeveralRanksRefuse) {
  const auto alone = single_communicator();
  for (const auto dtype : {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong}) {
    const auto mine = own_values(*alone, dtype);
    expect_refused(*alone, mine, ReduceOp::mean, 1.0);
    expect_refused(*alone, mine, ReduceOp::sum, 0.5);
    EXPECT_THROW((void)alone->all_reduce(mine, ReduceOp::mean), UsageError);
    EXPECT_TRUE(reduced(*alone, mine, ReduceOp::bor).equal(mine));
  }
  const auto complex = own_values(*alone, at::kComplexFloat);
  EXPECT_THROW((void)reduced(*alone, complex, ReduceOp::product), UsageError);
  EXPECT_THROW((void)reduced(*alone, torch::ones({2}), ReduceOp::band), UsageError);
  EXPECT_TRUE(reduced(*alone, complex, ReduceOp::mean, 2.0).equal(complex * 2));
}

TEST(Padding, OfIntegersIsANumberThatTheDtypeHas) {
  run_ranks(2, [](Communicator& comm) {
    const auto mine = torch::ones({comm.rank() + 1}, at::kByte);
    for (const double index : {0.5, -1.0, 256.0}) {
      const auto text = kind_and_message_of(
          [&] { (void)pad_across_processes(comm, mine, {.pad_index = index}); });
      EXPECT_TRUE(text.starts_with("UsageError: pad_across_processes")) << text;
    }
    EXPECT_EQ(pad_across_processes(comm, mine, {.pad_index = 255})[1].item<int>(),
              comm.rank() == 0 ? 255 : 1);
  });
}

}  // namespace
}  // namespace accelerate
