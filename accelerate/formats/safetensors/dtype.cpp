#include "accelerate/formats/safetensors/dtype.h"

#include <algorithm>
#include <array>

namespace accelerate {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  unsigned bits;
  unsigned alignment;
};

constexpr std::array kRows = {
    Row{DType::boolean, "BOOL", 8, 1},
    Row{DType::f4, "F4", 4, 1},
    Row{DType::f6_e2m3, "F6_E2M3", 6, 1},
    Row{DType::f6_e3m2, "F6_E3M2", 6, 1},
    Row{DType::u8, "U8", 8, 1},
    Row{DType::i8, "I8", 8, 1},
    Row{DType::f8_e5m2, "F8_E5M2", 8, 1},
    Row{DType::f8_e4m3, "F8_E4M3", 8, 1},
    Row{DType::f8_e8m0, "F8_E8M0", 8, 1},
    Row{DType::f8_e4m3fnuz, "F8_E4M3FNUZ", 8, 1},
    Row{DType::f8_e5m2fnuz, "F8_E5M2FNUZ", 8, 1},
    Row{DType::i16, "I16", 16, 2},
    Row{DType::u16, "U16", 16, 2},
    Row{DType::f16, "F16", 16, 2},
    Row{DType::bf16, "BF16", 16, 2},
    Row{DType::i32, "I32", 32, 4},
    Row{DType::u32, "U32", 32, 4},
    Row{DType::f32, "F32", 32, 4},
    Row{DType::c64, "C64", 64, 4},
    Row{DType::f64, "F64", 64, 8},
    Row{DType::i64, "I64", 64, 8},
    Row{DType::u64, "U64", 64, 8},
};

constexpr auto kDTypes = [] {
  std::array<DType, kRows.size()> dtypes{};
  for (std::size_t i = 0; i < kRows.size(); ++i) dtypes[i] = kRows[i].dtype;
  return dtypes;
}();

constexpr bool rows_follow_the_enum() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<std::size_t>(kRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_follow_the_enum());

const Row& row(DType dtype) {
  return kRows.at(static_cast<std::size_t>(dtype));
}

}  // namespace

std::span<const DType> all_dtypes() {
  return kDTypes;
}

std::string_view dtype_name(DType dtype) {
  return row(dtype).name;
}

std::optional<DType> parse_dtype(std::string_view name) {
  const auto found = std::ranges::find(kRows, name, &Row::name);
  if (found == kRows.end()) return std::nullopt;
  return found->dtype;
}

unsigned bits_of(DType dtype) {
  return row(dtype).bits;
}

unsigned alignment_of(DType dtype) {
  return row(dtype).alignment;
}

std::optional<std::uint64_t> bytes_of(DType dtype, std::span<const std::int64_t> shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) {
      return std::nullopt;
    }
  }
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(elements, bits_of(dtype), &bits) || bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

}  // namespace accelerate
