#include "accelerate/formats/gguf/ggml_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

constexpr std::int64_t kBlock = 32;  // Elements of a block, for every quantised type here.

struct Known {
  GgmlType type;
  std::string_view name;
  GgmlBlock block;
};

constexpr std::array kKnown{
    Known{GgmlType::f32, "F32", {1, 4}},         Known{GgmlType::f16, "F16", {1, 2}},
    Known{GgmlType::bf16, "BF16", {1, 2}},       Known{GgmlType::q4_0, "Q4_0", {kBlock, 18}},
    Known{GgmlType::q4_1, "Q4_1", {kBlock, 20}}, Known{GgmlType::q8_0, "Q8_0", {kBlock, 34}},
};

// Names by number; empty where ggml no longer uses a number.
constexpr std::array<std::string_view, 42> kNames{
    "F32",     "F16",   "Q4_0",   "Q4_1",  "",      "",       "Q5_0", "Q5_1",    "Q8_0",
    "Q8_1",    "Q2_K",  "Q3_K",   "Q4_K",  "Q5_K",  "Q6_K",   "Q8_K", "IQ2_XXS", "IQ2_XS",
    "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",   "I16",     "I32",
    "I64",     "F64",   "IQ1_M",  "BF16",  "",      "",       "",     "TQ1_0",   "TQ2_0",
    "",        "",      "",       "MXFP4", "NVFP4", "Q1_0"};

const Known& known(GgmlType type) {
  return *std::ranges::find(kKnown, type, &Known::type);
}

std::uint16_t bits_at(const std::byte* bytes) {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(bytes[0]) |
                                    std::to_integer<unsigned>(bytes[1]) << 8U);
}

float half_at(const std::byte* bytes) {
  const std::uint32_t half = bits_at(bytes);
  const std::uint32_t sign = (half & 0x8000U) << 16U, exponent = half >> 10U & 31U,
                      fraction = half & 0x3ffU;
  if (exponent == 0)  // Zero or a subnormal number.
    return std::bit_cast<float>(
        sign | std::bit_cast<std::uint32_t>(std::ldexp(static_cast<float>(fraction), -24)));
  const std::uint32_t wide = exponent == 31 ? 255U : exponent + 112U;
  return std::bit_cast<float>(sign | wide << 23U | fraction << 13U);
}

// Each of these functions writes the elements of one block.
void q4_0(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock / 2; ++i) {
    const int both = std::to_integer<int>(block[2 + i]);
    values[i] = scale * static_cast<float>((both & 15) - 8);
    values[i + kBlock / 2] = scale * static_cast<float>((both >> 4) - 8);
  }
}

// The product of an 11-bit and a 4-bit number is exact, so one or two roundings give the same sum.
void q4_1(const std::byte* block, float* values) {
  const float scale = half_at(block), least = half_at(block + 2);
  for (int i = 0; i < kBlock / 2; ++i) {
    const int both = std::to_integer<int>(block[4 + i]);
    values[i] = scale * static_cast<float>(both & 15) + least;
    values[i + kBlock / 2] = scale * static_cast<float>(both >> 4) + least;
  }
}

void q8_0(const std::byte* block, float* values) {
  const float scale = half_at(block);
  for (int i = 0; i < kBlock; ++i)
    values[i] = scale * static_cast<float>(static_cast<std::int8_t>(block[2 + i]));
}

template <auto one>
void each(const GgmlBlock& block, std::span<const std::byte> bytes, std::span<float> values) {
  const std::byte* in = bytes.data();
  float* const end = values.data() + values.size();
  for (float* out = values.data(); out != end; out += block.elements, in += block.bytes)
    one(in, out);
}

}  // namespace

GgmlBlock block_of(GgmlType type) {
  return known(type).block;
}

std::string_view ggml_type_name(GgmlType type) {
  return known(type).name;
}

GgmlType parse_ggml_type(std::uint32_t number) {
  std::string readable;
  for (const Known& each : kKnown) {
    if (static_cast<std::uint32_t>(each.type) == number) return each.type;
    readable += (readable.empty() ? "" : ", ") + std::string(each.name);
  }
  const std::string_view name = number < kNames.size() ? kNames[number] : "";
  throw CheckpointError("its type is " +
                        (name.empty() ? "number " + std::to_string(number) + ", which has no name"
                                      : std::string(name)) +
                        "; the types that are read are " + readable +
                        ". Take a file of one of these, which llama-quantize makes");
}

void dequantize(GgmlType type, std::span<const std::byte> bytes, std::span<float> values) {
  const GgmlBlock block = block_of(type);
  switch (type) {
    case GgmlType::f32:
    case GgmlType::f16:
    case GgmlType::bf16:
      throw UsageError(std::string(ggml_type_name(type)) + " has no blocks");
    case GgmlType::q4_0:
      return each<q4_0>(block, bytes, values);
    case GgmlType::q4_1:
      return each<q4_1>(block, bytes, values);
    case GgmlType::q8_0:
      return each<q8_0>(block, bytes, values);
  }
}

}  // namespace accelerate
