#include "accelerate/formats/tensorboard/tensorboard_events.h"

#include "accelerate/base/bytes.h"
#include "accelerate/base/checksum.h"
#include "accelerate/formats/tensorboard/protobuf_wire.h"

namespace accelerate {
namespace {

using detail::ProtoMessage;

// Field numbers of tensorflow's event.proto, summary.proto, tensor.proto, histogram.proto.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSourceMetadata = 10 };
enum ValueField { kTag = 1, kSimpleValue = 2, kImage = 4, kHisto = 5, kTensor = 8, kMetadata = 9 };

void real_unless_zero(ProtoMessage& message, int field, double value) {
  if (value != 0) message.real(field, value);
}

ProtoMessage event_at(const EventStamp& stamp) {
  ProtoMessage event;
  real_unless_zero(event, kWallTime, stamp.wall_time);
  if (stamp.step != 0) event.varint(kStep, static_cast<std::uint64_t>(stamp.step));
  return event;
}

// Returns an event whose summary is this one value.
std::string summary_event(const EventStamp& stamp, const ProtoMessage& value) {
  ProtoMessage event = event_at(stamp);
  event.message(kSummary, ProtoMessage().message(1, value));
  return framed_record(event.text());
}

ProtoMessage tagged(std::string_view tag) {
  ProtoMessage value;
  value.bytes(kTag, tag);
  return value;
}

// Returns SummaryMetadata with the plugin that the value is for.
ProtoMessage plugin_metadata(std::string_view plugin, std::string_view content) {
  ProtoMessage data;
  data.bytes(1, plugin);
  if (!content.empty()) data.bytes(2, content);
  return ProtoMessage().message(1, data);
}

// Returns a TensorProto with one string.
ProtoMessage string_tensor(std::string_view text) {
  constexpr int kDtString = 7;
  const ProtoMessage dim = ProtoMessage().varint(1, 1);
  const ProtoMessage shape = ProtoMessage().message(2, dim);
  return ProtoMessage().varint(1, kDtString).message(2, shape).bytes(8, text);
}

// Returns a google.protobuf.Value.
ProtoMessage hparam_value(const HparamValue& value) {
  ProtoMessage message;
  if (const auto* number = std::get_if<double>(&value)) return message.real(2, *number);
  if (const auto* text = std::get_if<std::string>(&value)) return message.bytes(3, *text);
  return message.varint(4, std::get<bool>(value) ? 1 : 0);
}

// Returns the type's number in hparams.DataType.
std::uint64_t hparam_type(const HparamValue& value) {
  if (std::holds_alternative<std::string>(value)) return 1;
  return std::holds_alternative<bool>(value) ? 2 : 3;
}

ProtoMessage hparams_experiment(const Hparams& hparams) {
  ProtoMessage experiment;
  for (const auto& [name, value] : hparams) {
    experiment.message(4, ProtoMessage().bytes(1, name).varint(4, hparam_type(value)));
  }
  return experiment;
}

ProtoMessage hparams_session_start(const Hparams& hparams) {
  ProtoMessage start;
  for (const auto& [name, value] : hparams) {
    start.message(1, ProtoMessage().bytes(1, name).message(2, hparam_value(value)));
  }
  return start;
}

ProtoMessage hparams_session_end() {
  constexpr int kStatusSuccess = 1;
  return ProtoMessage().varint(1, kStatusSuccess);
}

// Returns a value without data: the plugin reads its metadata.
std::string hparams_event(const EventStamp& stamp, std::string_view tag, int field,
                          const ProtoMessage& content) {
  const ProtoMessage data = ProtoMessage().message(field, content);
  ProtoMessage value = tagged(tag);
  value.message(kMetadata, plugin_metadata("hparams", data.text()));
  return summary_event(stamp, value);
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

std::string framed_record(std::string_view payload) {
  std::string record;
  append_little_endian(record, static_cast<std::uint64_t>(payload.size()));
  append_little_endian(record, masked_crc32c(record));
  record += payload;
  append_little_endian(record, masked_crc32c(payload));
  return record;
}

std::string file_version_event(double wall_time) {
  ProtoMessage event = event_at({wall_time, 0});
  event.bytes(kFileVersion, "brain.Event:2");
  event.message(kSourceMetadata, ProtoMessage().bytes(1, "accelerate.cpp"));
  return framed_record(event.text());
}

std::string scalar_event(const EventStamp& stamp, std::string_view tag, float value) {
  return summary_event(stamp, tagged(tag).real32(kSimpleValue, value));
}

std::string text_event(const EventStamp& stamp, std::string_view tag, std::string_view text) {
  ProtoMessage value = tagged(std::string(tag) + "/text_summary");
  value.message(kTensor, string_tensor(text));
  value.message(kMetadata, plugin_metadata("text", ""));
  return summary_event(stamp, value);
}

std::string image_event(const EventStamp& stamp, std::string_view tag, const PngImage& image) {
  ProtoMessage message;
  message.varint(1, static_cast<std::uint64_t>(image.height))
      .varint(2, static_cast<std::uint64_t>(image.width))
      .varint(3, static_cast<std::uint64_t>(image.channels));
  if (!image.png.empty()) message.bytes(4, image.png);
  return summary_event(stamp, tagged(tag).message(kImage, message));
}

std::string histogram_event(const EventStamp& stamp, std::string_view tag,
                            const HistogramSummary& histogram) {
  ProtoMessage message;
  real_unless_zero(message, 1, histogram.min);
  real_unless_zero(message, 2, histogram.max);
  real_unless_zero(message, 3, histogram.num);
  real_unless_zero(message, 4, histogram.sum);
  real_unless_zero(message, 5, histogram.sum_squares);
  message.reals(6, histogram.bucket_limit).reals(7, histogram.bucket);
  return summary_event(stamp, tagged(tag).message(kHisto, message));
}

std::string hparams_events(const EventStamp& stamp, const Hparams& hparams) {
  return hparams_event(stamp, "_hparams_/experiment", 2, hparams_experiment(hparams)) +
         hparams_event(stamp, "_hparams_/session_start_info", 3, hparams_session_start(hparams)) +
         hparams_event(stamp, "_hparams_/session_end_info", 4, hparams_session_end());
}

}  // namespace accelerate
