#include "accelerate/formats/tensorboard/tensorboard_events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/formats/tensorboard/protobuf_wire.h"
#include "tests/formats/safetensors_support.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using OrderedJson = nlohmann::ordered_json;
using testing::from_hex;

std::string to_hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return hex;
}

Hparams hparams_of(const OrderedJson& row) {
  Hparams hparams;
  for (const auto& [name, value] : row.items()) {
    if (value.is_string()) {
      hparams.emplace_back(name, value.get<std::string>());
    } else {
      hparams.emplace_back(name, value.get<double>());
    }
  }
  return hparams;
}

std::string written(const OrderedJson& row) {
  const EventStamp stamp{row.at("stamp")[0], row.at("stamp")[1]};
  const std::string kind = row.at("kind");
  if (kind == "hparams") return hparams_events(stamp, hparams_of(row.at("hparams")));
  const std::string tag = row.at("tag");
  if (kind == "scalar") return scalar_event(stamp, tag, row.at("value").get<float>());
  if (kind == "text") return text_event(stamp, tag, row.at("text").get<std::string>());
  return image_event(stamp, tag, {28, 200, 3, from_hex(row.at("png"))});
}

HistogramSummary histogram_of(const OrderedJson& row) {
  return {row.at("min"),         row.at("max"),          row.at("num"),   row.at("sum"),
          row.at("sum_squares"), row.at("bucket_limit"), row.at("bucket")};
}

TEST(TensorboardEvents, AreByteForByteThoseOfTheOriginal) {
  const OrderedJson rows =
      OrderedJson::parse(testing::read_reference("tensorboard_events.json")).at("events");
  ASSERT_EQ(rows.size(), 19u);
  for (const auto& row : rows) {
    EXPECT_EQ(to_hex(written(row)), row.at("hex").get<std::string>()) << row.dump().substr(0, 200);
  }
}

TEST(TensorboardEvents, HistogramsAreByteForByteThoseOfTheOriginal) {
  const OrderedJson rows =
      OrderedJson::parse(testing::read_reference("tensorboard_events.json")).at("histograms");
  ASSERT_EQ(rows.size(), 10u);
  for (const auto& row : rows) {
    const std::string record = histogram_event({5.0, 3}, "w", histogram_of(row));
    EXPECT_EQ(to_hex(record), row.at("hex").get<std::string>()) << row.at("name");
  }
}

TEST(TensorboardEvents, ARecordIsItsLengthThePayloadAndTwoChecksums) {
  const std::string record = framed_record("abc");
  EXPECT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(TensorboardEvents, AFileBeginsWithItsVersion) {
  EXPECT_NE(file_version_event(1.0).find("brain.Event:2"), std::string::npos);
}

TEST(TensorboardEvents, ABooleanHyperparameterStaysOne) {
  const std::string events = hparams_events({}, {{"amp", true}});
  EXPECT_NE(events.find(std::string("\x0a\x03"
                                    "amp\x12\x02\x20\x01",
                                    9)),
            std::string::npos);
}

TEST(ProtobufWire, VarintsTakeSevenBitsAByteLowestFirst) {
  EXPECT_EQ(to_hex(detail::ProtoMessage().varint(1, 0).text()), "0800");
  EXPECT_EQ(to_hex(detail::ProtoMessage().varint(1, 127).text()), "087f");
  EXPECT_EQ(to_hex(detail::ProtoMessage().varint(1, 300).text()), "08ac02");
  EXPECT_EQ(to_hex(detail::ProtoMessage().varint(16, ~0ull).text()), "8001ffffffffffffffffff01");
}

TEST(ProtobufWire, FixedNumbersAreLittleEndian) {
  EXPECT_EQ(to_hex(detail::ProtoMessage().real32(2, 1.0F).text()), "150000803f");
  EXPECT_EQ(to_hex(detail::ProtoMessage().real(1, 1.0).text()), "09000000000000f03f");
}

TEST(ProtobufWire, TextsMessagesAndPackedNumbersCarryTheirLength) {
  EXPECT_EQ(to_hex(detail::ProtoMessage().bytes(1, "ab").text()), "0a026162");
  const auto inner = detail::ProtoMessage().varint(1, 1);
  EXPECT_EQ(to_hex(detail::ProtoMessage().message(3, inner).text()), "1a020801");
  EXPECT_EQ(to_hex(detail::ProtoMessage().reals(6, {0.0}).text()), "32080000000000000000");
}

}  // namespace
}  // namespace accelerate
