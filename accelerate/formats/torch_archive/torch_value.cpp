#include "accelerate/formats/torch_archive/torch_value.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "accelerate/base/error.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

template <typename Key>
const TorchValue* find_last(const TorchValue& value, const Key& key) {
  const auto* dict = value.as<TorchDict>();
  if (dict == nullptr) return nullptr;
  for (auto entry = dict->entries.rbegin(); entry != dict->entries.rend(); ++entry) {
    const Key* own = entry->key.template as<Key>();
    if (own != nullptr && *own == key) return &entry->value;
  }
  return nullptr;
}

// Moves `index` to the next element in row-major order, and `from` to the offset of that element.
void advance(const TorchTensor& tensor, std::vector<std::int64_t>& index, std::uint64_t& from) {
  for (std::size_t d = tensor.shape.size(); d-- > 0;) {
    const auto stride = static_cast<std::uint64_t>(tensor.strides[d]);
    from += stride;
    if (++index[d] < tensor.shape[d]) return;
    from -= stride * static_cast<std::uint64_t>(tensor.shape[d]);
    index[d] = 0;
  }
}

}  // namespace

bool TorchTensor::contiguous() const {
  if (std::ranges::find(shape, 0) != shape.end()) return true;
  std::int64_t expected = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && strides[d] != expected) return false;
    expected *= shape[d];
  }
  return true;
}

std::uint64_t TorchTensor::size_bytes() const {
  return bytes_of(dtype, shape).value();
}

bool TorchTensor::aligned() const {
  return reinterpret_cast<std::uintptr_t>(bytes.data()) % alignment_of(dtype) == 0;
}

void TorchTensor::copy_to(std::span<std::byte> out) const {
  const std::uint64_t size = size_bytes();
  if (out.size() != size) {
    throw UsageError("a tensor of " + std::to_string(size) + " bytes was to be copied into " +
                     std::to_string(out.size()));
  }
  stream_to([rest = out](std::span<const std::byte> piece) mutable {
    if (!piece.empty()) std::memcpy(rest.data(), piece.data(), piece.size());
    rest = rest.subspan(piece.size());
  });
}

void TorchTensor::stream_to(const ByteSink& sink) const {
  const std::uint64_t size = size_bytes();
  if (contiguous()) return sink(bytes.first(size));
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  const std::size_t width = bits_of(dtype) / 8;
  std::vector<std::byte> piece(std::min<std::uint64_t>(size, kPiece));
  std::vector<std::int64_t> index(shape.size(), 0);
  std::uint64_t from = 0;
  for (std::uint64_t left = size, filled = 0; left > 0; left -= width) {
    std::memcpy(piece.data() + filled, bytes.data() + from * width, width);
    filled += width;
    if (filled == piece.size() || left == width) {
      sink(std::span(piece).first(filled));
      filled = 0;
    }
    advance(*this, index, from);
  }
}

const TorchValue* TorchValue::find(std::string_view key) const {
  return find_last(*this, std::string(key));
}

const TorchValue* TorchValue::find(std::int64_t key) const {
  return find_last(*this, key);
}

const TorchValue* TorchValue::attribute(std::string_view name) const {
  const auto* object = as<TorchObject>();
  if (object == nullptr) return nullptr;
  for (const auto& [key, value] : object->attributes)
    if (const auto* own = key.as<std::string>(); own != nullptr && *own == name) return &value;
  return nullptr;
}

std::span<const TorchValue> TorchValue::items() const {
  if (const auto* list = as<TorchList>()) return list->items;
  if (const auto* tuple = as<TorchTuple>()) return tuple->items;
  return {};
}

std::string TorchValue::describe() const {
  const auto many = [](const char* what, std::size_t count) {
    return what + std::to_string(count) + (count == 1 ? " item" : " items");
  };
  return std::visit(
      Overloaded{
          [](const TorchNone&) { return std::string("None"); },
          [](bool value) { return std::string(value ? "True" : "False"); },
          [](std::int64_t value) { return "the number " + std::to_string(value); },
          [](const TorchBigInteger&) { return std::string("a number beyond 64 bits"); },
          [](double value) { return "the number " + std::to_string(value); },
          [](const std::string& text) { return "the text " + detail::printable(text); },
          [&](const TorchBytes& value) { return many("bytes of ", value.bytes.size()); },
          [&](const TorchList& value) { return many("a list of ", value.items.size()); },
          [&](const TorchTuple& value) { return many("a tuple of ", value.items.size()); },
          [&](const TorchSet& value) { return many("a set of ", value.items.size()); },
          [&](const TorchDict& value) { return many("a dict of ", value.entries.size()); },
          [](const TorchObject& value) {
            return "an object of " +
                   (value.class_name.empty() ? "TorchScript"
                                             : detail::printable(value.class_name)) +
                   " with " + std::to_string(value.attributes.size()) + " attributes";
          },
          [](const TorchSize& value) { return "a torch.Size " + detail::shape_text(value.sizes); },
          [](const TorchDtype& value) { return "the type torch." + value.name; },
          [](const TorchDevice& value) { return "the device " + value.name; },
          [](const TorchTensor& value) {
            return "a tensor " + std::string(dtype_name(value.dtype)) + " " +
                   detail::shape_text(value.shape);
          },
          [](const TorchShards& value) {
            return "a part of a tensor " + std::string(dtype_name(value.dtype)) + " " +
                   detail::shape_text(value.shape) + ", which is spread over several files";
          },
          [](const NumpyArray& value) {
            return "a numpy array " + value.dtype + " " + detail::shape_text(value.shape);
          }},
      content);
}

}  // namespace accelerate

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
