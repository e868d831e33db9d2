// Values as bytes: everything arrives as it was sent, and nothing damaged is believed.
#include "accelerate/tensor/parcel.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "accelerate/base/error.h"

namespace accelerate::detail {
namespace {

template <typename T>
at::Tensor packed(T value) {
  const ParcelWriter writer = to_parcel(value);
  at::Tensor bytes = torch::zeros({static_cast<std::int64_t>(writer.size())}, at::kByte);
  writer.pack(bytes);
  return bytes;
}

using Everything = std::tuple<at::Tensor, std::vector<std::string>, std::optional<double>,
                              std::map<std::string, std::pair<at::Tensor, bool>>,
                              std::array<std::int64_t, 2>, std::vector<bool>>;

Everything everything() {
  return {torch::arange(6, at::kFloat).view({2, 3}).t(),
          {"", "zwei"},
          1.5,
          {{"undefined", {at::Tensor(), true}}, {"empty", {torch::zeros({0, 4}), false}}},
          {-1, 1L << 40},
          {true, false}};
}

TEST(Parcel, ArrivesAsItWasSent) {
  const auto [tensor, texts, number, map, array, flags] =
      from_parcel<Everything>(packed(everything()));
  EXPECT_TRUE(at::equal(tensor, std::get<0>(everything())));
  EXPECT_EQ(texts, std::get<1>(everything()));
  EXPECT_EQ(number, 1.5);
  EXPECT_FALSE(map.at("undefined").first.defined());
  EXPECT_EQ(map.at("empty").first.sizes(), (at::IntArrayRef{0, 4}));
  EXPECT_EQ(array, (std::array<std::int64_t, 2>{-1, 1L << 40}));
  EXPECT_EQ(flags, (std::vector<bool>{true, false}));
}

TEST(Parcel, KeepsEveryDtype) {
  for (auto dtype : {at::kBool, at::kByte, at::kShort, at::kInt, at::kLong, at::kHalf,
                     at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat}) {
    const at::Tensor sent = torch::ones({3}, dtype);
    const auto received = from_parcel<std::vector<at::Tensor>>(packed(std::vector{sent, sent}));
    EXPECT_EQ(received[1].scalar_type(), dtype);
    EXPECT_TRUE(at::equal(received[1], sent));
  }
}

TEST(Parcel, CutShortAnywhereIsAnError) {
  using Value = std::pair<std::vector<std::string>, at::Tensor>;
  const at::Tensor whole = packed(Value{{"text"}, torch::arange(5)});
  for (std::int64_t length = 0; length < whole.numel(); ++length) {
    EXPECT_THROW(static_cast<void>(from_parcel<Value>(whole.narrow(0, 0, length).clone())),
                 CommError)
        << length;
  }
}

TEST(Parcel, AFlippedByteIsAnErrorOrAnotherValueButNeverACrash) {
  const at::Tensor whole = packed(everything());
  for (std::int64_t place = 0; place < whole.numel(); ++place) {
    at::Tensor damaged = whole.clone();
    damaged[place].bitwise_xor_(0xFF);
    try {
      static_cast<void>(from_parcel<Everything>(damaged));
    } catch (const CommError&) {
      continue;
    }
  }
}

TEST(Parcel, SparseTensorsAreRefusedWithTheCure) {
  std::vector<at::Tensor> sparse{torch::ones({2, 2}).to_sparse()};
  EXPECT_THROW(static_cast<void>(to_parcel(sparse)), UsageError);
}

}  // namespace
}  // namespace accelerate::detail
