// Writes Protocol Buffers' wire format, as far as TensorBoard's event files need it.
// docs/formats/tensorboard.md says which messages are written with it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate::detail {

/// Builds one message, field by field. As in proto3, the caller leaves out fields that have their
/// default value. Field numbers begin at 1.
class ProtoMessage {
 public:
  ProtoMessage& varint(int field, std::uint64_t value);               ///< int32, int64, bool, enum
  ProtoMessage& real(int field, double value);                        ///< double
  ProtoMessage& real32(int field, float value);                       ///< float
  ProtoMessage& bytes(int field, std::string_view value);             ///< string, bytes
  ProtoMessage& message(int field, const ProtoMessage& value);        ///< A nested message.
  ProtoMessage& reals(int field, const std::vector<double>& values);  ///< repeated double, packed

  /// The message in wire format.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  enum class WireType { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };
  void tag(int field, WireType type);
  void raw_varint(std::uint64_t value);

  std::string text_;
};

}  // namespace accelerate::detail
