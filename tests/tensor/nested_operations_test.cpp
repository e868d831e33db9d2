// Conversions, moves, joins and sizes of nested values.
#include "accelerate/tensor/nested_operations.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"

namespace user {
struct Output {
  at::Tensor logits;
  std::optional<at::Tensor> loss;
  std::string label;
};
void visit_tensors(Output& output, auto&& fn) {
  fn(output.logits);
  accelerate::visit_tensors(output.loss, fn);
}
}  // namespace user

namespace accelerate {
namespace {

using Named = std::map<std::string, at::Tensor>;
const c10::Device kMeta(c10::kMeta);

TEST(ConvertToFp32, WidensHalvesAtAnyDepthAndNothingElse) {
  std::vector<user::Output> outputs = {
      {torch::ones({2}, at::kBFloat16), torch::ones({}, at::kHalf), "kept"}};
  outputs = convert_to_fp32(outputs);
  EXPECT_EQ(outputs[0].logits.scalar_type(), at::kFloat);
  EXPECT_EQ(outputs[0].loss->scalar_type(), at::kFloat);
  EXPECT_EQ(outputs[0].label, "kept");
  for (const auto type : {at::kFloat, at::kDouble, at::kLong, at::kBool}) {
    const auto other = torch::ones({2}, type);
    EXPECT_TRUE(convert_to_fp32(other).is_same(other)) << type;
  }
  EXPECT_FALSE(convert_to_fp32(at::Tensor()).defined());
}

TEST(ConvertToFp32, GradientsPassInTheNarrowType) {
  auto leaf = torch::ones({2}, at::TensorOptions(at::kBFloat16).requires_grad(true));
  convert_to_fp32(leaf * 2).sum().backward();
  EXPECT_TRUE(leaf.grad().equal(torch::full({2}, 2, at::kBFloat16)));
}

TEST(ConvertToFp32, WrapsAForward) {
  auto forward = convert_outputs_to_fp32([](const at::Tensor& x) {
    return std::pair{x.to(at::kHalf), Named{{"a", x.to(at::kBFloat16)}}};
  });
  const auto [first, second] = forward(torch::ones({1}));
  EXPECT_EQ(first.scalar_type(), at::kFloat);
  EXPECT_EQ(second.at("a").scalar_type(), at::kFloat);
}

TEST(RecursivelyApply, KeepsStructureAndType) {
  const std::tuple<at::Tensor, std::vector<Named>, int> value{
      torch::ones({1}), {{{"a", torch::zeros({2})}}}, 7};
  const auto got = recursively_apply([](const at::Tensor& t) { return t + 1; }, value);
  EXPECT_EQ(std::get<0>(got).item<int>(), 2);
  EXPECT_EQ(std::get<1>(got)[0].at("a")[1].item<int>(), 1);
  EXPECT_EQ(std::get<2>(got), 7);
}

TEST(SendToDevice, MovesEveryTensorOfANestedValue) {
  const std::pair<std::vector<at::Tensor>, Named> value{{torch::ones({1})},
                                                        {{"a", torch::ones({2})}}};
  const auto moved = send_to_device(value, kMeta);
  EXPECT_EQ(moved.first[0].device(), kMeta);
  EXPECT_EQ(moved.second.at("a").device(), kMeta);
  EXPECT_TRUE(value.first[0].device().is_cpu()) << "the argument is left alone";
  const auto here = torch::ones({1});
  EXPECT_TRUE(send_to_device(here, c10::kCPU, {.non_blocking = true}).is_same(here));
}

TEST(SendToDevice, LeavesSkippedKeysWhereTheyAreAtAnyDepth) {
  const std::map<std::string, Named> value = {
      {"x", {{"ids", torch::ones({1})}, {"host", torch::ones({1})}}},
      {"host", {{"ids", torch::ones({1})}}}};
  const auto moved = send_to_device(value, kMeta, {.skip_keys = {"host"}});
  EXPECT_EQ(moved.at("x").at("ids").device(), kMeta);
  EXPECT_TRUE(moved.at("x").at("host").device().is_cpu());
  EXPECT_TRUE(moved.at("host").at("ids").device().is_cpu());
  torch::OrderedDict<std::string, at::Tensor> ordered;
  ordered.insert("a", torch::ones({1}));
  ordered.insert("host", torch::ones({1}));
  const auto sent = send_to_device(std::vector{ordered}, kMeta, {.skip_keys = {"host"}});
  EXPECT_EQ(sent[0]["a"].device(), kMeta);
  EXPECT_TRUE(sent[0]["host"].device().is_cpu());
}

TEST(SendToDevice, TakesUserStructsAndUndefinedTensors) {
  const auto moved = send_to_device(user::Output{torch::ones({1}), at::Tensor(), "kept"}, kMeta);
  EXPECT_EQ(moved.logits.device(), kMeta);
  EXPECT_FALSE(moved.loss->defined());
  EXPECT_EQ(moved.label, "kept");
}

TEST(FindDevice, IsThatOfTheFirstTensor) {
  EXPECT_EQ(find_device(Named{{"a", torch::ones({1}, kMeta)}}), kMeta);
  EXPECT_EQ(find_device(std::vector<at::Tensor>{at::Tensor(), torch::ones({1})}), c10::kCPU);
  EXPECT_EQ(find_device(std::vector<at::Tensor>{}), std::nullopt);
}

TEST(FindBatchSize, IsTheFirstDimensionOfTheFirstTensor) {
  EXPECT_EQ(find_batch_size(torch::ones({5, 2})), 5);
  EXPECT_EQ(find_batch_size(std::vector<Named>{{{"a", torch::ones({3})}}}), 3);
}

TEST(Concatenate, JoinsEverySlotAndKeepsTheStructure) {
  using Value = std::pair<at::Tensor, Named>;
  const Value one{torch::ones({2, 3}), {{"a", torch::ones({2})}}};
  const Value two{torch::zeros({1, 3}), {{"a", torch::zeros({4})}}};
  const auto joined = concatenate(std::vector{one, two});
  EXPECT_EQ(joined.first.sizes(), (std::vector<std::int64_t>{3, 3}));
  EXPECT_TRUE(joined.second.at("a").equal(torch::tensor({1.F, 1.F, 0.F, 0.F, 0.F, 0.F})));
  const auto wide = concatenate(std::vector{torch::ones({2, 1}), torch::ones({2, 4})}, 1);
  EXPECT_EQ(wide.sizes(), (std::vector<std::int64_t>{2, 5}));
  EXPECT_TRUE(concatenate(std::vector{one}).first.is_same(one.first)) << "one batch is not copied";
}

// The sizes that upstream's own tests ask for: {rows, processes, rows afterwards}.
TEST(PadInputTensors, GivesTheSizesOfTheOriginal) {
  const std::vector<std::array<std::int64_t, 3>> rows = {{1, 2, 2}, {3, 2, 4}, {4, 3, 6},
                                                         {3, 4, 4}, {4, 6, 6}, {1, 6, 6}};
  for (const auto& [size, processes, expected] : rows) {
    const auto padded = pad_input_tensors(torch::rand({size, 4, 4}), size, processes);
    EXPECT_EQ(padded.sizes(), (std::vector<std::int64_t>{expected, 4, 4})) << size << processes;
  }
}

TEST(PadInputTensors, IsTheNextMultipleFilledByTheLastRow) {
  for (std::int64_t size = 1; size <= 13; ++size) {
    for (std::int64_t processes = 1; processes <= 5; ++processes) {
      const auto padded = pad_input_tensors(torch::arange(size), size, processes);
      EXPECT_EQ(padded.size(0) % processes, 0);
      EXPECT_LT(padded.size(0), size + processes);
      EXPECT_TRUE(padded.narrow(0, 0, size).equal(torch::arange(size)));
      EXPECT_TRUE(padded.slice(0, size).eq(size - 1).all().item<bool>());
    }
  }
  const auto wide = pad_input_tensors(Named{{"a", torch::tensor({{1, 2, 3}})}}, 3, 2, 1);
  EXPECT_TRUE(wide.at("a").equal(torch::tensor({{1, 2, 3, 3}})));
}

TEST(NestedOperations, RefuseBadInputWithASentence) {
  const auto refused = [](const std::function<void()>& call, const std::string& part) {
    try {
      call();
      ADD_FAILURE() << "was taken; expected: " << part;
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  using Many = std::vector<at::Tensor>;
  refused([] { (void)find_batch_size(Many{}); }, "without tensors");
  refused([] { (void)find_batch_size(torch::ones({})); }, "scalar");
  refused([] { (void)concatenate(std::vector<at::Tensor>{}); }, "no values");
  refused([] { (void)concatenate(std::vector<Many>{Many(2), Many(3)}); },
          "value 0 holds 2 tensors, value 1 holds 3");
  refused(
      [] {
        (void)concatenate(std::vector<Named>{{{"a", torch::ones({1})}}, {{"b", torch::ones({1})}}});
      },
      "the first has the keys 'a', another one 'b'");
  refused([] { (void)pad_input_tensors(torch::ones({3}), 4, 2); }, "[3] does not have the 4 rows");
  refused([] { (void)pad_input_tensors(torch::ones({0}), 0, 2); }, "at least one is needed");
  refused([] { (void)pad_input_tensors(torch::ones({}), 1, 2); }, "rows along dim 0");
  refused([] { (void)pad_input_tensors(torch::ones({3}), 3, 0); }, "num_processes is 0");
}

}  // namespace
}  // namespace accelerate
