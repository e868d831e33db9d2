#include "accelerate/formats/gguf/gguf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "tests/formats/gguf_support.h"
#include "tests/formats/safetensors_support.h"
#include "tests/support/errors.h"
#include "tests/support/messages.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::GgufBuilder;
using testing::message_of;

constexpr auto number = GgufBuilder::number;

GgufFile opened(const std::string& text) {
  testing::OneFile files(text);
  return GgufFile::open("model.gguf", files);
}

std::string refusal_of(const std::string& text) {
  return message_of<CheckpointError>([&] { (void)opened(text); });
}

std::string refusal_of(const GgufBuilder& builder) {
  return refusal_of(builder.file());
}

std::vector<float> values_of(GgmlType type, const std::string& bytes) {
  const GgmlBlock block = block_of(type);
  std::vector<float> values(bytes.size() / static_cast<std::size_t>(block.bytes) *
                            static_cast<std::size_t>(block.elements));
  dequantize(type, testing::as_bytes(bytes), values);
  return values;
}

TEST(Gguf, ReadsMetadataOfEveryKind) {
  GgufBuilder builder;
  builder.add("u8", 0, number(200, 1)).add("i8", 1, number(0xfe, 1));
  builder.add("u16", 2, number(60000, 2)).add("i16", 3, number(0xfffe, 2));
  builder.add_u32("u32", 4000000000).add("i32", 5, number(0xfffffffe, 4));
  builder.add("f32", 6, testing::float_bytes(0.1F)).add("bool", 7, number(1, 1));
  builder.add_text("text", "né").add_texts("words", {"a", "", "ccc"});
  builder.add("u64", 10, number(1ULL << 63, 8)).add("i64", 11, number(~0ULL - 1, 8));
  builder.add("f64", 12, number(std::bit_cast<std::uint64_t>(0.1), 8));
  builder.add("numbers", 9, number(4, 4) + number(2, 8) + number(7, 4) + number(8, 4));
  builder.add("nested", 9, number(9, 4) + number(1, 8) + number(0, 4) + number(3, 8) + "abc");
  for (const std::uint32_t version : {2U, 3U}) {
    std::string text = builder.file();
    text[4] = static_cast<char>(version);
    const GgufFile file = opened(text);
    EXPECT_EQ(file.metadata().size(), 15U);
    EXPECT_EQ(file.integer("u8"), 200);
    EXPECT_EQ(file.integer("i8"), -2);
    EXPECT_EQ(file.integer("u16"), 60000);
    EXPECT_EQ(file.integer("i16"), -2);
    EXPECT_EQ(file.integer("u32"), 4000000000);
    EXPECT_EQ(file.integer("i32"), -2);
    EXPECT_EQ(file.integer("i64"), -2);
    EXPECT_EQ(file.number("f32"), double{0.1F});
    EXPECT_EQ(file.number("f64"), 0.1);
    EXPECT_EQ(file.number("u8"), 200.0);
    EXPECT_EQ(file.text("text"), "né");
    EXPECT_EQ(file.length("words"), 3U);
    EXPECT_EQ(file.length("numbers"), 2U);
    EXPECT_EQ(file.length("nested"), 1U);
    EXPECT_EQ(file.integer("missing"), std::nullopt);
    expect_has(message_of<CheckpointError>([&] { (void)file.integer("text"); }), "model.gguf");
    expect_has(message_of<CheckpointError>([&] { (void)file.integer("u64"); }), "'u64'");
    EXPECT_THROW((void)file.text("u8"), CheckpointError);
    EXPECT_THROW((void)file.number("words"), CheckpointError);
    EXPECT_THROW((void)file.length("bool"), CheckpointError);
  }
}

TEST(Gguf, FindsTensorsWhereTheyLie) {
  GgufBuilder builder;
  builder.add_tensor("a", {2, 3}, 0, std::string(24, 'a'))
      .add_tensor("b", {32}, 8, std::string(34, 'b'));
  builder.add_tensor("nothing", {0, 5}, 0, "").add_tensor("one", {}, 0, std::string(4, 'c'));
  const GgufFile file = opened(builder.file());
  ASSERT_EQ(file.tensors().size(), 4U);
  const GgufTensor* a = file.find("a");
  EXPECT_EQ(a->shape, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(testing::as_text(a->bytes), std::string(24, 'a'));
  EXPECT_EQ(testing::as_text(file.find("b")->bytes), std::string(34, 'b'));
  EXPECT_TRUE(file.find("nothing")->bytes.empty());
  EXPECT_EQ(file.find("one")->bytes.size(), 4U);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST(Gguf, DequantisesAsGgmlDoes) {
  const std::string one_and_a_half = number(0x3e00, 2), minus_two = number(0xc000, 2);
  std::string nibbles;
  for (int i = 0; i < 16; ++i) nibbles += static_cast<char>(i | (15 - i) << 4);
  const auto q4_0 = values_of(GgmlType::q4_0, one_and_a_half + nibbles);
  const auto q4_1 = values_of(GgmlType::q4_1, one_and_a_half + minus_two + nibbles);
  std::string bytes;
  for (int i = 0; i < 32; ++i) bytes += static_cast<char>(i * 8 - 128);
  const auto q8_0 = values_of(GgmlType::q8_0, minus_two + bytes);
  for (int i = 0; i < 16; ++i) {
    const auto at = static_cast<std::size_t>(i);
    EXPECT_EQ(q4_0[at], 1.5F * static_cast<float>(i - 8));
    EXPECT_EQ(q4_0[at + 16], 1.5F * static_cast<float>(7 - i));
    EXPECT_EQ(q4_1[at], 1.5F * static_cast<float>(i) - 2);
    EXPECT_EQ(q4_1[at + 16], 1.5F * static_cast<float>(15 - i) - 2);
    EXPECT_EQ(q8_0[at], -2.0F * static_cast<float>(i * 8 - 128));
  }
}

TEST(Gguf, ScalesMayBeAnyHalf) {
  const auto scale = [](std::uint64_t half) {
    return values_of(GgmlType::q8_0, number(half, 2) + std::string(32, '\1'))[0];
  };
  EXPECT_EQ(scale(0x0001), std::ldexp(1.0F, -24));
  EXPECT_EQ(scale(0x83ff), -std::ldexp(1023.0F, -24));
  EXPECT_EQ(scale(0x0400), std::ldexp(1.0F, -14));
  EXPECT_EQ(scale(0x7bff), 65504.0F);
  EXPECT_EQ(scale(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(scale(0x7e00)));
  EXPECT_EQ(scale(0x8000), 0.0F);
  EXPECT_TRUE(std::signbit(scale(0x8000)));
}

TEST(Gguf, RefusesTypesByName) {
  const auto refusal = [](std::uint32_t type) {
    return refusal_of(GgufBuilder().add_tensor("blk.0.w", {256}, type, std::string(512, '\0')));
  };
  expect_has(refusal(12), "tensor 'blk.0.w': its type is Q4_K");
  expect_has(refusal(12), "Q8_0");
  expect_has(refusal(4), "number 4");
  expect_has(refusal(1000), "number 1000");
}

TEST(Gguf, RefusesWhatIsNoGguf) {
  expect_has(refusal_of(""), "ends within its header");
  expect_has(refusal_of("GGML" + std::string(40, '\0')), "not a GGUF file");
  expect_has(refusal_of(GgufBuilder(1)), "version is 1");
  expect_has(refusal_of(GgufBuilder(4)), "2 and 3");
  expect_has(refusal_of(GgufBuilder(0x03000000)), "highest byte first");
  expect_has(refusal_of(GgufBuilder().add("k", 13, "")), "type 13");
}

TEST(Gguf, RefusesWhatContradictsItself) {
  const std::string data(64, '\0');
  expect_has(refusal_of(GgufBuilder().add_u32("k", 1).add_u32("k", 1)), "key 'k' twice");
  expect_has(refusal_of(GgufBuilder().add_tensor("a", {4}, 0, data).add_tensor("a", {4}, 0, data)),
             "tensor 'a' twice");
  expect_has(refusal_of(GgufBuilder().add_tensor("a", {16, 2}, 2, data)), "rows of 16 elements");
  expect_has(refusal_of(GgufBuilder().add_tensor("a", {1, 1, 1, 1, 1}, 0, data)), "5 dimensions");
  expect_has(refusal_of(GgufBuilder().add_outline("a", {4}, 0, 5)), "not a multiple of 32");
  expect_has(refusal_of(GgufBuilder().add_tensor("a", {17}, 0, data)), "beyond its");
  expect_has(refusal_of(GgufBuilder().add_outline("a", {4}, 0, ~0ULL << 5U)), "beyond its");
  expect_has(refusal_of(GgufBuilder().add_outline("a", {1ULL << 63U}, 0, 0)), "overflows");
  expect_has(refusal_of(GgufBuilder().add_outline("a", {1ULL << 62U, 4, 4}, 0, 0)), "overflows");
  expect_has(refusal_of(GgufBuilder().add_tensor("\xff", {4}, 0, data)), "not UTF-8");
  for (const std::uint32_t alignment : {0U, 3U, 1U << 31U})
    expect_has(refusal_of(GgufBuilder().add_u32("general.alignment", alignment)), "power of two");
  expect_has(refusal_of(GgufBuilder().add_text("general.alignment", "32")), "power of two");
  std::string nested = number(0, 4) + number(0, 8);
  for (int i = 0; i < 6; ++i) nested = number(9, 4) + number(1, 8) + nested;
  expect_has(refusal_of(GgufBuilder().add("k", 9, nested)), "deep");
}

TEST(Gguf, RefusesPromisesThatTheFileHasNoRoomFor) {
  const GgufBuilder builder;
  expect_has(refusal_of(builder.file(~0ULL, 0)), "tensors");
  expect_has(refusal_of(builder.file(0, 1ULL << 60U)), "entries of metadata");
  expect_has(refusal_of(GgufBuilder().add("k", 8, number(~0ULL, 8))), "cut short");
  for (const std::uint32_t type : {0U, 8U, 9U, 12U})
    expect_has(refusal_of(GgufBuilder().add("k", 9, number(type, 4) + number(~0ULL / 2, 8))),
               "elements of an array");
}

TEST(Gguf, EveryCutAndEveryChangeIsReadOrRefused) {
  GgufBuilder builder;
  builder.add_text("general.architecture", "llama").add_texts("words", {"a", "bb"});
  builder.add_tensor("a", {32, 2}, 8, std::string(68, 'a')).add_tensor("b", {3}, 30, "abcdef");
  const std::string whole = builder.file();
  const std::size_t last = whole.rfind('f') + 1;
  for (std::size_t size = 0; size < last; ++size) (void)refusal_of(whole.substr(0, size));
  std::mt19937 draw(1);
  for (int round = 0; round < 20000; ++round) {
    std::string changed = whole;
    for (int i = 0; i < 1 + round % 3; ++i)
      changed[draw() % changed.size()] = static_cast<char>(draw() % 7 == 0 ? 255 : draw());
    try {
      const GgufFile file = opened(changed);
      for (const GgufTensor& tensor : file.tensors())
        EXPECT_LE(tensor.bytes.size(), changed.size());
    } catch (const CheckpointError&) {
    }
  }
}

}  // namespace
}  // namespace accelerate
