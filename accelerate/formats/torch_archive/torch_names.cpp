#include "accelerate/formats/torch_archive/torch_names.h"

#include <array>

namespace accelerate::detail {
namespace {

constexpr std::array kStorages = {
    TorchName{"torch.BFloat16Storage", DType::bf16},
    TorchName{"torch.BoolStorage", DType::boolean},
    TorchName{"torch.ByteStorage", DType::u8},
    TorchName{"torch.CharStorage", DType::i8},
    TorchName{"torch.ComplexDoubleStorage", std::nullopt},
    TorchName{"torch.ComplexFloatStorage", DType::c64},
    TorchName{"torch.DoubleStorage", DType::f64},
    TorchName{"torch.FloatStorage", DType::f32},
    TorchName{"torch.HalfStorage", DType::f16},
    TorchName{"torch.IntStorage", DType::i32},
    TorchName{"torch.LongStorage", DType::i64},
    TorchName{"torch.ShortStorage", DType::i16},
};

constexpr std::array kDtypes = {
    TorchName{"torch.bfloat16", DType::bf16},
    TorchName{"torch.bool", DType::boolean},
    TorchName{"torch.complex128", std::nullopt},
    TorchName{"torch.complex32", std::nullopt},
    TorchName{"torch.complex64", DType::c64},
    TorchName{"torch.float16", DType::f16},
    TorchName{"torch.float32", DType::f32},
    TorchName{"torch.float4_e2m1fn_x2", std::nullopt},
    TorchName{"torch.float64", DType::f64},
    TorchName{"torch.float8_e4m3fn", DType::f8_e4m3},
    TorchName{"torch.float8_e4m3fnuz", DType::f8_e4m3fnuz},
    TorchName{"torch.float8_e5m2", DType::f8_e5m2},
    TorchName{"torch.float8_e5m2fnuz", DType::f8_e5m2fnuz},
    TorchName{"torch.float8_e8m0fnu", DType::f8_e8m0},
    TorchName{"torch.int16", DType::i16},
    TorchName{"torch.int32", DType::i32},
    TorchName{"torch.int64", DType::i64},
    TorchName{"torch.int8", DType::i8},
    TorchName{"torch.uint16", DType::u16},
    TorchName{"torch.uint32", DType::u32},
    TorchName{"torch.uint64", DType::u64},
    TorchName{"torch.uint8", DType::u8},
};

}  // namespace

std::span<const TorchName> storage_names() {
  return kStorages;
}

std::span<const TorchName> dtype_names() {
  return kDtypes;
}

}  // namespace accelerate::detail
