// What counts as a dataset, and what its batches are.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <array>
#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "accelerate/data/data_loader.h"

namespace user {

struct Tokens {
  at::Tensor ids, mask;
  std::string task;
};
void visit_tensors(Tokens& tokens, auto&& fn) {
  fn(tokens.ids);
  fn(tokens.mask);
}

/// Sample i is {i, i}, {1, 1}.
struct Corpus {
  [[nodiscard]] std::size_t size() const { return 5; }
  [[nodiscard]] Tokens get(std::size_t index) const {
    return {torch::full({2}, static_cast<std::int64_t>(index)), torch::ones({2}), "copy"};
  }
};

/// torch::data style: sample i is (i, 10 i).
struct Pairs : torch::data::datasets::Dataset<Pairs> {
  torch::data::Example<> get(std::size_t index) override {
    const auto value = static_cast<std::int64_t>(index);
    return {torch::full({3}, value), torch::tensor(10 * value)};
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return 6; }
};

/// Makes whole batches itself, and counts how often it was asked.
struct Whole : torch::data::datasets::BatchDataset<Whole, at::Tensor> {
  at::Tensor get_batch(at::ArrayRef<std::size_t> request) override {
    ++*asked;
    std::vector<std::int64_t> values(request.begin(), request.end());
    return torch::tensor(values);
  }
  [[nodiscard]] std::optional<std::size_t> size() const override { return samples; }
  std::optional<std::size_t> samples = 7;
  std::shared_ptr<std::atomic<int>> asked = std::make_shared<std::atomic<int>>(0);
};

struct Uncopyable {
  [[nodiscard]] std::size_t size() const { return 40; }
  std::int64_t get(std::size_t index) {
    if (busy++ != 0) overlapped = true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --busy;
    return static_cast<std::int64_t>(index);
  }
  std::atomic<int> busy{0};
  std::atomic<bool> overlapped{false};
};

}  // namespace user

namespace accelerate {
namespace {

template <typename Loader>
auto first_batch(const Loader& loader) {
  return *loader.begin();
}

at::Tensor ints(std::vector<std::int64_t> values) {
  return torch::tensor(values);
}

TEST(MakeDataLoader, TakesATensorRowByRow) {
  auto data = torch::arange(10).reshape({5, 2});
  auto loader = make_data_loader(data, {.batch_size = 2});
  static_assert(std::is_same_v<decltype(loader), DataLoader<at::Tensor>>);
  EXPECT_EQ(loader.size(), 3U);
  EXPECT_TRUE(at::equal(first_batch(loader), data.slice(0, 0, 2)));
}

TEST(MakeDataLoader, BatchesOfTensorsHaveMemoryOfTheirOwn) {
  auto data = torch::zeros({4});
  for (auto& batch : make_data_loader(data, {.batch_size = 2})) batch.fill_(1);
  EXPECT_EQ(data.sum().item<float>(), 0);
}

TEST(MakeDataLoader, TakesTuplesMapsExamplesAndStructsOfTensors) {
  const auto x = torch::arange(6), y = torch::arange(6) * 2;
  auto [a, b] = first_batch(make_data_loader(std::tuple(x, y), {.batch_size = 3}));
  EXPECT_TRUE(at::equal(a, ints({0, 1, 2})) && at::equal(b, ints({0, 2, 4})));
  auto map = first_batch(
      make_data_loader(std::map<std::string, at::Tensor>{{"x", x}, {"y", y}}, {.batch_size = 2}));
  EXPECT_TRUE(at::equal(map["y"], ints({0, 2})));
  auto example = first_batch(make_data_loader(torch::data::Example<>{x, y}, {.batch_size = 2}));
  EXPECT_TRUE(at::equal(example.target, ints({0, 2})));
  auto tokens = first_batch(make_data_loader(user::Tokens{x, y, "copy"}, {.batch_size = 2}));
  EXPECT_TRUE(at::equal(tokens.mask, ints({0, 2})));
  EXPECT_EQ(tokens.task, "copy");
}

// Rows of 1, 2, 4 and 8 bytes are copied as words, wherever they begin.
TEST(MakeDataLoader, TakesRowsThatBeginAtAnyAddress) {
  const auto bytes = torch::arange(65, at::kByte);
  for (std::int64_t width : {1, 2, 4, 8, 16}) {
    const auto data = bytes.slice(0, 1).view({-1, width});
    auto loader = make_data_loader(data, {.batch_size = data.size(0), .shuffle = true});
    EXPECT_TRUE(at::equal(std::get<0>(first_batch(loader).flatten().sort()), bytes.slice(0, 1)));
  }
}

// Stacked place by place, tensors of different names would end up in one.
TEST(MakeDataLoader, SamplesThatDifferInKeysOrNumberOfTensorsAreADataError) {
  using Named = std::map<std::string, at::Tensor>;
  using List = std::vector<at::Tensor>;
  const auto x = torch::zeros({2});
  const auto refuses = [](const auto& samples) {
    try {
      static_cast<void>(make_data_loader(samples, {.batch_size = 3}).begin());
      ADD_FAILURE() << "nothing was thrown";
    } catch (const DataError& error) {
      EXPECT_NE(describe(error).find("sample 2 of the batch has other keys"), std::string::npos)
          << describe(error);
      EXPECT_TRUE(describe(error).ends_with(" [accelerate.error/ragged-batch]")) << describe(error);
    }
  };
  refuses(std::vector<Named>{{{"a", x}, {"b", x}}, {{"a", x}, {"b", x}}, {{"a", x}, {"c", x}}});
  refuses(std::vector<Named>{{{"a", x}}, {{"a", x}}, {{"a", x}, {"c", x}}});
  refuses(std::vector<List>{{x, x}, {x, x}, {x}});
  refuses(std::vector<std::map<int, std::pair<Named, List>>>{
      {{1, {{{"a", x}}, {x}}}}, {{1, {{{"a", x}}, {x}}}}, {{1, {{{"b", x}}, {x}}}}});
}

TEST(MakeDataLoader, TakesAnOrderedDictOfTensors) {
  torch::OrderedDict<std::string, at::Tensor> columns;
  columns.insert("b", torch::arange(4));
  columns.insert("a", torch::arange(4) + 10);
  auto batch = first_batch(make_data_loader(columns, {.batch_size = 2}));
  EXPECT_EQ(batch.keys(), (std::vector<std::string>{"b", "a"}));
  EXPECT_TRUE(at::equal(batch["a"], ints({10, 11})));
}

TEST(MakeDataLoader, TakesAMappedTorchDataset) {
  auto loader = make_data_loader(user::Pairs().map(torch::data::transforms::Stack<>()),
                                 {.batch_size = 4, .shuffle = true});
  static_assert(std::is_same_v<decltype(loader), DataLoader<torch::data::Example<>>>);
  for (auto& batch : loader) EXPECT_TRUE(at::equal(batch.data.select(1, 0) * 10, batch.target));
}

TEST(MakeDataLoader, StacksTheExamplesOfATorchDataset) {
  auto batch = first_batch(make_data_loader(user::Pairs(), {.batch_size = 2}));
  EXPECT_EQ(batch.data.sizes(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_TRUE(at::equal(batch.target, ints({0, 10})));
}

TEST(MakeDataLoader, AsksABatchDatasetOnceABatch) {
  const user::Whole whole;
  for (auto& batch : make_data_loader(whole, {.batch_size = 3})) EXPECT_LE(batch.numel(), 3);
  EXPECT_EQ(whole.asked->load(), 3);
}

TEST(MakeDataLoader, StacksAUserStructAndKeepsItsOtherMembers) {
  auto loader = make_data_loader(user::Corpus(), {.batch_size = 3});
  static_assert(std::is_same_v<decltype(loader), DataLoader<user::Tokens>>);
  auto batch = first_batch(loader);
  EXPECT_TRUE(at::equal(batch.ids, torch::tensor({{0, 0}, {1, 1}, {2, 2}})));
  EXPECT_EQ(batch.task, "copy");
}

TEST(MakeDataLoader, TakesAVectorOfSamples) {
  std::vector<std::pair<at::Tensor, int>> samples;
  for (int i = 0; i < 4; ++i) samples.emplace_back(torch::full({2}, i), i * 3);
  auto [data, label] = first_batch(make_data_loader(samples, {.batch_size = 3}));
  EXPECT_EQ(data.sizes(), (std::vector<std::int64_t>{3, 2}));
  EXPECT_TRUE(at::equal(label, ints({0, 3, 6})));
}

TEST(MakeDataLoader, CollatesWithAFunctionOfTheUser) {
  std::vector<std::vector<std::int64_t>> sentences{{1}, {2, 3}, {4, 5, 6}};
  auto pad = [](std::vector<std::vector<std::int64_t>> rows) {
    std::vector<at::Tensor> tensors;
    for (auto& row : rows) tensors.push_back(torch::tensor(row));
    return torch::nn::utils::rnn::pad_sequence(tensors, true);
  };
  auto loader = make_data_loader(sentences, {.batch_size = 3, .num_workers = 2}, pad);
  EXPECT_TRUE(at::equal(first_batch(loader), torch::tensor({{1, 0, 0}, {2, 3, 0}, {4, 5, 6}})));
}

TEST(MakeDataLoader, SharesADatasetBehindASharedPointer) {
  auto shared = std::make_shared<user::Whole>();
  auto loader = make_data_loader(shared, {.batch_size = 7});
  first_batch(loader);
  EXPECT_EQ(shared->asked->load(), 1);
  EXPECT_THROW(make_data_loader(std::shared_ptr<user::Whole>()), UsageError);
}

TEST(MakeDataLoader, CallsADatasetThatItCannotCopyFromOneThreadAtATime) {
  auto shared = std::make_shared<user::Uncopyable>();
  std::int64_t expected = 0;
  for (auto& batch : make_data_loader(shared, {.num_workers = 4})) {
    EXPECT_EQ(batch.item<std::int64_t>(), expected++);
  }
  EXPECT_EQ(expected, 40);
  EXPECT_FALSE(shared->overlapped);
}

TEST(MakeDataLoader, RefusesADatasetWithoutSize) {
  user::Whole unsized;
  unsized.samples = std::nullopt;
  EXPECT_THROW(make_data_loader(unsized), DataError);
}

TEST(MakeDataLoader, RefusesTensorsThatDisagreeAboutTheNumberOfSamples) {
  try {
    static_cast<void>(make_data_loader(std::tuple(torch::zeros({4, 2}), torch::zeros({3}))));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("tensor 1 of the dataset has shape [3]"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(make_data_loader(at::Tensor()), DataError);
  EXPECT_THROW(make_data_loader(torch::tensor(1)), DataError);
}

TEST(MakeDataLoader, BuildsNoGraphWhileReading) {
  const auto weights = torch::ones({4}, torch::requires_grad());
  EXPECT_FALSE(first_batch(make_data_loader(weights)).requires_grad());
}

TEST(DefaultCollate, TurnsNumbersIntoTensorsAsPythonDoes) {
  EXPECT_EQ(default_collate(std::vector<int>{1, 2}).scalar_type(), torch::kLong);
  EXPECT_EQ(default_collate(std::vector<std::uint8_t>{1, 2}).scalar_type(), torch::kLong);
  EXPECT_EQ(default_collate(std::vector<float>{1, 2}).scalar_type(), torch::kFloat);
  EXPECT_EQ(default_collate(std::vector<double>{1, 2}).scalar_type(), torch::kDouble);
  EXPECT_TRUE(
      at::equal(default_collate(std::vector<bool>{true, false}), torch::tensor({true, false})));
  EXPECT_EQ(default_collate(std::vector<double>{0.5, 2})[0].item<double>(), 0.5);
}

TEST(DefaultCollate, GoesIntoTuplesAndKeepsStrings) {
  using Sample = std::tuple<at::Tensor, std::pair<int, std::string>, std::array<at::Tensor, 2>>;
  const auto t = torch::ones({2});
  auto [tensor, pair, both] =
      default_collate(std::vector<Sample>{{t, {1, "a"}, {t, t}}, {t, {2, "b"}, {t, t + 1}}});
  EXPECT_EQ(tensor.sizes(), (std::vector<std::int64_t>{2, 2}));
  EXPECT_TRUE(at::equal(pair.first, ints({1, 2})));
  EXPECT_EQ(pair.second, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(at::equal(both[1], torch::tensor({{1., 1.}, {2., 2.}})));
}

}  // namespace
}  // namespace accelerate
