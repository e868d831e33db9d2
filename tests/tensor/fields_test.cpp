// Which members of a struct the compiler can name.
#include "accelerate/tensor/fields.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace accelerate::detail {
namespace {

struct Batch {
  at::Tensor ids;
  std::vector<std::string> names;
  int epoch = 0;
};
struct Inside {
  Batch batch;
  std::optional<at::Tensor> mask;
  std::map<std::string, double> scores;
  std::unique_ptr<int> owner;
};
struct Twelve {
  int a, b, c, d, e, f, g, h, i, j, k, l;
};

TEST(Fields, AreCountedWhateverTheirTypes) {
  EXPECT_EQ(kFields<Batch>, 3U);
  EXPECT_EQ(kFields<Inside>, 4U);
  EXPECT_EQ(kFields<Twelve>, 12U);
}

struct Thirteen : Twelve {};
struct Many {
  int a, b, c, d, e, f, g, h, i, j, k, l, m;
};
struct Array {
  at::Tensor ids;
  int sizes[3];
};
struct Derived : Batch {
  int more;
};
struct One {
  at::Tensor ids;
};
struct DerivedOfOne : One {
  at::Tensor more;
};
struct Constructed {
  explicit Constructed(int size) : size(size) {}
  int size;
};
struct Empty {};

TEST(Fields, AreNotNamedWhereTheyCannotBe) {
  EXPECT_FALSE(HasFields<Thirteen>);
  EXPECT_FALSE(HasFields<Many>);
  EXPECT_FALSE(HasFields<Array>);
  EXPECT_FALSE(HasFields<Derived>);
  EXPECT_FALSE(HasFields<DerivedOfOne>);
  EXPECT_FALSE(HasFields<Constructed>);
  EXPECT_FALSE(HasFields<Empty>);
  EXPECT_FALSE(HasFields<at::Tensor>);
}

TEST(Fields, AreTheMembersThemselves) {
  Batch batch{torch::ones({2}), {"a"}, 1};
  std::get<1>(fields_of(batch)).emplace_back("b");
  int seen = 0;
  for_each_field(batch, [&](auto&) { ++seen; });
  EXPECT_EQ(batch.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(seen, 3);
}

}  // namespace
}  // namespace accelerate::detail
