#include "accelerate/formats/torch_archive/torch_convert.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/safetensors/safetensors_header.h"

namespace accelerate::detail {
namespace {

using Kind = PickleNode::Kind;

[[noreturn]] void refuse_numpy(const std::string& why) {
  throw CheckpointError("its pickle has a numpy object that " + why);
}

struct NumpyType {
  char kind;          // 'b', 'i', 'u' or 'f'.
  std::size_t width;  // Bytes.
};

bool holds(const PickleNode& tuple, std::initializer_list<Kind> kinds) {
  if (tuple.kind != Kind::tuple || tuple.items.size() < kinds.size()) return false;
  std::size_t i = 0;
  for (const Kind kind : kinds) {
    if (tuple.items[i++]->kind != kind) return false;
  }
  return true;
}

// Reads numpy.dtype("u4", False, True) with the state (3, "<", …).
NumpyType type_of(const PickleNode& node) {
  if (!is_call_of(node, "numpy.dtype") || !holds(*node.items[1], {Kind::text})) {
    refuse_numpy("has no element type");
  }
  const std::string_view name = node.items[1]->items[0]->text;
  static constexpr std::string_view kNames[] = {"b1", "i1", "i2", "i4", "i8", "u1",
                                                "u2", "u4", "u8", "f2", "f4", "f8"};
  if (std::ranges::find(kNames, name) == std::end(kNames)) {
    refuse_numpy("has elements of the type " + printable(name) +
                 "; only booleans, integers and floats are read");
  }
  if (node.state != nullptr) {
    if (!holds(*node.state, {Kind::integer, Kind::text}))
      refuse_numpy("has a NumPy dtype of an unknown version");
    const std::string_view order = node.state->items[1]->text;
    if (order != "<" && order != "|" && order != "=")
      refuse_numpy("is of the byte order " + printable(order));
  }
  return {name[0], static_cast<std::size_t>(name[1] - '0')};
}

std::string bytes_of_node(const PickleNode& node) {
  if (node.kind == Kind::bytes) return std::string(node.text);
  if (is_call_of(node, "__builtin__.bytes")) return "";
  if (is_call_of(node, "_codecs.encode") && node.items[1]->items.size() == 2) {
    return decode_latin1(*node.items[1]->items[0], *node.items[1]->items[1]);
  }
  refuse_numpy("has no bytes");
}

std::vector<std::int64_t> shape_of(const PickleNode& node) {
  if (node.kind != Kind::tuple || node.items.size() > 64) refuse_numpy("has no shape");
  std::vector<std::int64_t> shape;
  for (const PickleNode* item : node.items) {
    if (item->kind != Kind::integer || item->integer < 0) refuse_numpy("has a negative dimension");
    shape.push_back(item->integer);
  }
  return shape;
}

TorchValue number_of(NumpyType type, std::uint64_t bits) {
  const unsigned unused = 64 - 8 * static_cast<unsigned>(type.width);
  if (type.kind == 'b') return {bits != 0};
  if (type.kind == 'i') return {std::bit_cast<std::int64_t>(bits << unused) >> unused};
  if (type.kind == 'f' && type.width == 8) return {std::bit_cast<double>(bits)};
  if (type.kind == 'f' && type.width == 4) {
    return {static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))};
  }
  if (type.kind == 'f') refuse_numpy("is a number of 16 bits; in Python save float(number)");
  if (bits >> 63 == 0) return {static_cast<std::int64_t>(bits)};
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xFF);
  return {TorchBigInteger{bytes + '\0'}};
}

}  // namespace

std::string decode_latin1(const PickleNode& text, const PickleNode& codec) {
  if (text.kind != Kind::text || codec.kind != Kind::text ||
      (codec.text != "latin1" && codec.text != "latin-1")) {
    throw CheckpointError("its pickle encodes text with a codec other than latin1");
  }
  std::string bytes;
  for (std::string_view rest = text.text; !rest.empty();) {
    const auto point = take_code_point(rest);
    if (!point || *point > 0xFF) {
      throw CheckpointError("its pickle has bytes with a character beyond latin1");
    }
    bytes += static_cast<char>(*point);
  }
  return bytes;
}

bool is_numpy_array(const PickleNode& call) {
  return is_call_of(call, "numpy._core.multiarray._reconstruct") ||
         is_call_of(call, "numpy.core.multiarray._reconstruct");
}

// Reads _reconstruct(numpy.ndarray, (0,), b"b") with the state (1, shape, dtype, column-major,
// bytes).
NumpyArray convert_numpy_array(const PickleNode& call) {
  if (!holds(*call.items[1], {Kind::global}) || call.items[1]->items[0]->text != "numpy.ndarray" ||
      call.items.size() > 2) {
    refuse_numpy("is a class derived from numpy.ndarray");
  }
  if (call.state == nullptr || call.state->items.size() != 5 ||
      !holds(*call.state, {Kind::integer, Kind::tuple, Kind::call, Kind::boolean})) {
    refuse_numpy("is an array without a state");
  }
  const auto& state = call.state->items;
  const NumpyType type = type_of(*state[2]);
  NumpyArray array{
      .dtype = std::string(type.width == 1 ? "|" : "<") + type.kind + std::to_string(type.width),
      .shape = shape_of(*state[1]),
      .fortran_order = state[3]->integer != 0,
      .bytes = bytes_of_node(*state[4])};
  std::uint64_t size = type.width;
  for (const std::int64_t dimension : array.shape) {
    if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(dimension), &size)) size = ~0ULL;
  }
  if (size != array.bytes.size()) {
    refuse_numpy("has " + std::to_string(array.bytes.size()) + " bytes, its shape takes " +
                 std::to_string(size));
  }
  return array;
}

TorchValue convert_numpy_scalar(const PickleNode& dtype, const PickleNode& bytes) {
  const NumpyType type = type_of(dtype);
  const std::string digits = bytes_of_node(bytes);
  if (digits.size() != type.width) refuse_numpy("is a number of the wrong size");
  std::uint64_t bits = 0;
  for (std::size_t i = digits.size(); i-- > 0;) {
    bits = bits << 8 | static_cast<unsigned char>(digits[i]);
  }
  return number_of(type, bits);
}

}  // namespace accelerate::detail
