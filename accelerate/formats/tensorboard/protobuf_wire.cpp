#include "accelerate/formats/tensorboard/protobuf_wire.h"

#include <bit>

#include "accelerate/base/bytes.h"

namespace accelerate::detail {

ProtoMessage& ProtoMessage::varint(int field, std::uint64_t value) {
  tag(field, WireType::varint);
  raw_varint(value);
  return *this;
}

ProtoMessage& ProtoMessage::real(int field, double value) {
  tag(field, WireType::fixed64);
  append_little_endian(text_, std::bit_cast<std::uint64_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::real32(int field, float value) {
  tag(field, WireType::fixed32);
  append_little_endian(text_, std::bit_cast<std::uint32_t>(value));
  return *this;
}

ProtoMessage& ProtoMessage::bytes(int field, std::string_view value) {
  tag(field, WireType::delimited);
  raw_varint(value.size());
  text_ += value;
  return *this;
}

ProtoMessage& ProtoMessage::message(int field, const ProtoMessage& value) {
  return bytes(field, value.text());
}

ProtoMessage& ProtoMessage::reals(int field, const std::vector<double>& values) {
  tag(field, WireType::delimited);
  raw_varint(values.size() * sizeof(double));
  for (const double value : values) {
    append_little_endian(text_, std::bit_cast<std::uint64_t>(value));
  }
  return *this;
}

void ProtoMessage::tag(int field, WireType type) {
  raw_varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(type));
}

// Writes seven bits a byte, lowest first. The highest bit says that more bytes follow.
void ProtoMessage::raw_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
  text_ += static_cast<char>(value);
}

}  // namespace accelerate::detail
