#include "accelerate/checkpoint/state_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <regex>

#include "accelerate/base/error.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;

StateDict round_trip(const StateDict& state) {
  const TemporaryFolder folder;
  (void)write_planned(real_file_system(), folder.path(), plan_state("state", state));
  return read_state_file(real_file_system(), folder.path(), "state");
}

TEST(StateFile, KeepsEveryKindOfValueToTheBit) {
  const double tenth = 0.1, tiny = std::numeric_limits<double>::denorm_min();
  const StateDict state = {{"nothing", StateDict()},
                           {"yes", true},
                           {"least", std::numeric_limits<std::int64_t>::min()},
                           {"one", 1.0},
                           {"tenth", tenth},
                           {"tiny", tiny},
                           {"huge", 1e300},
                           {"minus zero", -0.0},
                           {"text", "line\n\"ü\" 1.5"},
                           {"number in text", "17"},
                           {"list", StateDict::List{1, "two", StateDict::List{}}},
                           {"dict", {{"inner", StateDict::Dict()}}}};
  const StateDict read = round_trip(state);
  EXPECT_TRUE(read.at("nothing").is_null());
  EXPECT_TRUE(read.at("yes").to<bool>());
  EXPECT_EQ(read.at("least").to<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(read.at("one").holds<double>());
  EXPECT_EQ(read.at("tenth").to<double>(), tenth);
  EXPECT_EQ(read.at("tiny").to<double>(), tiny);
  EXPECT_EQ(read.at("huge").to<double>(), 1e300);
  EXPECT_TRUE(std::signbit(read.at("minus zero").to<double>()));
  EXPECT_EQ(read.at("text").to<std::string>(), "line\n\"ü\" 1.5");
  EXPECT_EQ(read.at("number in text").to<std::string>(), "17");
  EXPECT_EQ(read.at("list").list().size(), 3U);
  EXPECT_TRUE(read.at("list").list()[2].list().empty());
  EXPECT_TRUE(read.at("dict").at("inner").dict().empty());
}

TEST(StateFile, KeepsNumbersThatJsonLacks) {
  const auto read = round_trip({{"nan", std::nan("")},
                                {"inf", std::numeric_limits<double>::infinity()},
                                {"-inf", -std::numeric_limits<double>::infinity()}});
  EXPECT_TRUE(std::isnan(read.at("nan").to<double>()));
  EXPECT_EQ(read.at("inf").to<double>(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(read.at("-inf").to<double>(), -std::numeric_limits<double>::infinity());
}

TEST(StateFile, KeepsTensorsOfOneNameApart) {
  const auto a = at::arange(6).view({2, 3}), b = at::ones({}, at::kHalf), c = at::empty({0, 4});
  const auto read = round_trip({{"x", StateDict::Dict{{"y", a}}}, {"x.y", b.t()}, {"empty", c}});
  EXPECT_TRUE(at::equal(read.at("x").at("y").to<at::Tensor>(), a));
  EXPECT_TRUE(at::equal(read.at("x.y").to<at::Tensor>(), b));
  EXPECT_EQ(read.at("empty").to<at::Tensor>().sizes(), c.sizes());
  EXPECT_TRUE(at::equal(round_trip(a).to<at::Tensor>(), a)) << "a state that is a tensor";
}

TEST(StateFile, WritesNoTensorFileWithoutTensors) {
  const auto planned = plan_state("a", {{"x", 1}});
  ASSERT_EQ(planned.size(), 1U);
  EXPECT_EQ(planned[0].name, "a.json");
}

TEST(StateFile, RefusesToWriteWhatCouldNotBeReadBack) {
  const StateDict cases[] = {{{"undefined", at::Tensor()}}, {{"$tensor", 1}}, {{"x", "\xff"}}};
  for (const auto& state : cases) EXPECT_THROW((void)plan_state("a", state), CheckpointError);
}

// `levels` lists around `inner`.
StateDict nested(int levels, StateDict inner) {
  for (; levels > 0; --levels) inner = StateDict::List{std::move(inner)};
  return inner;
}

void expect_refused(const StateDict& state, const char* says) {
  try {
    (void)plan_state("early_stopping", state);
    ADD_FAILURE() << "saved in spite of: " << says;
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "'early_stopping'", error.what());
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error));
  }
}

TEST(StateFile, IsReadBackAtTheGreatestDepthAndRefusedBelowIt) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_NO_THROW(round_trip(nested(64, 1)));
  EXPECT_NO_THROW(round_trip(nested(63, StateDict::Dict())));
  EXPECT_NO_THROW(round_trip(nested(63, at::ones(2))));
  EXPECT_NO_THROW(round_trip(nested(63, infinity)));
  const StateDict deeper[] = {nested(65, 1), nested(64, StateDict::Dict()), nested(64, at::ones(2)),
                              nested(64, infinity), nested(2000, 1)};
  for (const auto& state : deeper) expect_refused(state, "deeper than 64 levels");
  expect_refused({{"history", nested(70, 1)}}, "'history.0.0");
}

TEST(StateFile, TooLongToBeReadBackIsRefused) {
  const StateDict half = std::string((std::size_t{128} << 20) + 1, '\0');
  expect_refused({{"log", StateDict::List{half, half}}},
                 "268435461 bytes of JSON or more; allowed are 268435456. Keep what is long in a "
                 "tensor");
}

TEST(StateFile, RefusesTensorsWithoutPlainElementsByNameAndCure) {
  expect_refused({{"adjacency", at::eye(3).to_sparse()}},
                 "'adjacency': the tensor is of the layout");
  expect_refused({{"adjacency", at::eye(3).to_sparse()}}, "to_dense()");
  expect_refused({{"csr", at::eye(3).to_sparse_csr()}}, "SparseCsr");
  expect_refused({{"later", at::empty({3}, at::kMeta)}},
                 "'later': the tensor is on the meta device");
}

struct HostileState {
  const char* json;
  const char* says;
};

TEST(StateFile, HostileFilesAreCheckpointErrors) {
  const HostileState cases[] = {
      {"{\"a\": {\"$tensor\": \"b\"}}", "state.safetensors.: No such file"},
      {"{\"a\": {\"$number\": \"NaN\", \"c\": 1}}", "does not know"},
      {"{\"a\": {\"$code\": \"b\"}}", "does not know"},
      {"{\"a\": {\"$number\": \"7\"}}", "'7' is not a number"},
      {"{\"a\": {\"$number\": [1]}}", "does not know"},
      {"{\"a\": 1e999}", "1e999"},
      {"{\"a\": 99999999999999999999999}", ""},
      {"{\"a\": 1, \"a\": 2}", "a"},
      {"{\"a\": ", "line 1"},
  };
  for (const auto& [json, says] : cases) {
    const TemporaryFolder folder;
    folder.write("state.json", json);
    try {
      const auto state = read_state_file(real_file_system(), folder.path(), "state");
      EXPECT_STREQ(says, "") << json;
      EXPECT_TRUE(state.at("a").holds<double>()) << "an integer beyond 64 bits is a real";
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(std::regex_search(describe(error), std::regex(says))) << describe(error);
    }
  }
}

}  // namespace
}  // namespace accelerate
