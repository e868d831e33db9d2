#include "accelerate/formats/flight_record.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"

namespace accelerate {
namespace {

using detail::FlightGroupRow;
using detail::FlightHeader;
using detail::FlightSlot;
using detail::FlightWhat;

// A header or a slot as plain memory: atomics cannot be copied.
template <typename T>
struct Copied {
  explicit Copied(const char* from) { std::memcpy(static_cast<void*>(&value), from, sizeof(T)); }
  T value;
};

template <typename T>
T read(const std::atomic<T>& word) {
  return word.load(std::memory_order_relaxed);
}

std::string text_in(const char* field, std::size_t most) {
  return detail::untrusted_line(std::string_view(field, ::strnlen(field, most)));
}

FlightGroup group_of(const FlightGroupRow& row) {
  constexpr std::uint32_t kMostRanks = 1U << 24;
  if (row.size > kMostRanks || row.rank > kMostRanks) return {0, 0, "?", "?"};
  return {static_cast<int>(row.rank), static_cast<int>(row.size),
          text_in(row.name, sizeof(row.name)), text_in(row.ranks, sizeof(row.ranks))};
}

std::string call_in(const FlightSlot& slot) {
  std::array<char, sizeof(slot.call)> text{};
  for (std::size_t i = 0; i < slot.call.size(); ++i) {
    const std::uint64_t word = read(slot.call[i]);
    std::memcpy(text.data() + i * sizeof(word), &word, sizeof(word));
  }
  return text_in(text.data(), text.size());
}

bool can_be(const FlightWhat& what) {
  return what.state >= FlightState::begun && what.state <= FlightState::failed &&
         what.kind <= FlightKind::meeting && what.group <= detail::kFlightGroups;
}

FlightEntry entry_of(const FlightSlot& slot, const FlightWhat& what,
                     const std::vector<FlightGroup>& groups) {
  FlightEntry entry;
  entry.position = read(slot.position);
  entry.state = what.state;
  entry.kind = what.kind;
  if (what.dtype != 0xff) entry.dtype = detail::flight_dtype(what.dtype);
  for (std::size_t i = 0; i < std::min<std::size_t>(what.dims, detail::kFlightDims); ++i) {
    entry.sizes.push_back(read(slot.sizes[i]));
  }
  entry.has_more_sizes = what.dims > detail::kFlightDims;
  entry.group = what.group < groups.size() ? groups[what.group] : FlightGroup{0, 0, "?", "?"};
  entry.number = read(slot.number);
  entry.bytes = read(slot.bytes);
  const std::uint64_t peer_and_thread = read(slot.peer_and_thread);
  entry.peer = static_cast<std::int32_t>(peer_and_thread >> 32);
  entry.thread = static_cast<std::uint32_t>(peer_and_thread);
  entry.begun_ns = read(slot.begun_ns);
  entry.waits_ns = read(slot.waits_ns);
  entry.ended_ns = read(slot.ended_ns);
  entry.call = call_in(slot);
  return entry;
}

[[noreturn]] void refuse_record(const std::string& name, const std::string& why) {
  throw CheckpointError(detail::untrusted_line(name) + " is no flight record: " + why);
}

void check_header(const FlightHeader& header, const std::string& name) {
  if (header.slot_bytes != sizeof(FlightSlot)) {
    refuse_record(name, "its slots have " + std::to_string(header.slot_bytes) +
                            " bytes; this version reads slots of " +
                            std::to_string(sizeof(FlightSlot)));
  }
  if (header.slots == 0 || header.slots > detail::kMostFlightSlots) {
    refuse_record(name, "it says that it has " + std::to_string(header.slots) +
                            " slots; allowed are 1 to " + std::to_string(detail::kMostFlightSlots));
  }
  if (header.world_size == 0 || header.rank >= header.world_size ||
      header.world_size > (1U << 24)) {
    refuse_record(name, "it says that it is of rank " + std::to_string(header.rank) + " of " +
                            std::to_string(header.world_size));
  }
}

}  // namespace

const char* to_string(FlightKind kind) {
  constexpr std::array<const char*, 13> kNames{
      "collective", "all_reduce", "reduce",       "reduce_scatter", "broadcast",
      "all_gather", "gather",     "scatter",      "all_to_all",     "barrier",
      "send",       "receive",    "first meeting"};
  return kNames.at(static_cast<std::size_t>(kind));
}

std::string detail::flight_dtype(std::uint8_t number) {
  constexpr std::array<const char*, 30> kNames{"Byte",
                                               "Char",
                                               "Short",
                                               "Int",
                                               "Long",
                                               "Half",
                                               "Float",
                                               "Double",
                                               "ComplexHalf",
                                               "ComplexFloat",
                                               "ComplexDouble",
                                               "Bool",
                                               "QInt8",
                                               "QUInt8",
                                               "QInt32",
                                               "BFloat16",
                                               "QUInt4x2",
                                               "QUInt2x4",
                                               "Bits1x8",
                                               "Bits2x4",
                                               "Bits4x2",
                                               "Bits8",
                                               "Bits16",
                                               "Float8_e5m2",
                                               "Float8_e4m3fn",
                                               "Float8_e5m2fnuz",
                                               "Float8_e4m3fnuz",
                                               "UInt16",
                                               "UInt32",
                                               "UInt64"};
  return number < kNames.size() ? kNames[number] : "?";
}

std::string describe(const FlightEntry& entry) {
  std::string text = entry.call.empty() ? "" : entry.call + ": ";
  text += to_string(entry.kind);
  if (entry.peer >= 0) {
    text += (entry.kind == FlightKind::receive ? " from rank " : " to rank ") +
            std::to_string(entry.peer);
  }
  if (entry.number > 0) text += " #" + std::to_string(entry.number);
  if (!entry.dtype.empty()) {
    std::vector<std::string> sizes;
    for (const auto size : entry.sizes) sizes.push_back(std::to_string(size));
    if (entry.has_more_sizes) sizes.emplace_back("…");
    text += " of " + entry.dtype + "[" + join(sizes, ", ") + "]";
  }
  const std::string bytes =
      entry.bytes > 0 ? format_bytes(static_cast<double>(entry.bytes)) + ", " : "";
  return text + " (" + bytes + "group " + entry.group.name + ")";
}

FlightRecord parse_flight_record(std::string_view bytes, const std::string& name) {
  if (bytes.size() < sizeof(FlightHeader) || !bytes.starts_with(detail::kFlightMagic)) {
    refuse_record(name, "it has " + std::to_string(bytes.size()) +
                            " bytes and does not begin as one (" +
                            std::to_string(sizeof(FlightHeader)) + " bytes, 'ACCFLT01')");
  }
  const Copied<FlightHeader> copied(bytes.data());
  const FlightHeader& header = copied.value;
  check_header(header, name);
  FlightRecord record;
  record.rank = static_cast<int>(header.rank);
  record.world_size = static_cast<int>(header.world_size);
  record.process = header.process;
  record.host = text_in(header.host, sizeof(header.host));
  record.epoch_ns = header.epoch_ns;
  record.begun = read(header.begun);
  record.left_in_order = read(header.ended) == 1;
  const auto groups = std::min<std::size_t>(read(header.groups), detail::kFlightGroups);
  for (std::size_t i = 0; i < groups; ++i) record.groups.push_back(group_of(header.rows[i]));

  bytes.remove_prefix(sizeof(FlightHeader));
  const std::size_t present =
      std::min<std::size_t>(header.slots, bytes.size() / sizeof(FlightSlot));
  record.missing = header.slots - present;
  for (std::size_t i = 0; i < present; ++i) {
    const Copied<FlightSlot> slot(bytes.data() + i * sizeof(FlightSlot));
    const std::uint64_t position = read(slot.value.position);
    if (position == 0) continue;
    FlightWhat what{};
    const std::uint64_t word = read(slot.value.what);
    std::memcpy(&what, &word, sizeof(what));
    if ((position - 1) % header.slots != i || !can_be(what)) {
      ++record.damaged;
      continue;
    }
    record.entries.push_back(entry_of(slot.value, what, record.groups));
  }
  std::ranges::sort(record.entries, {}, &FlightEntry::position);
  return record;
}

FlightRecord read_flight_record(const std::filesystem::path& file) {
  constexpr std::size_t kMost =
      sizeof(FlightHeader) + std::size_t{detail::kMostFlightSlots} * sizeof(FlightSlot);
  return parse_flight_record(read_file(real_file_system(), file, kMost), file.string());
}

std::vector<std::filesystem::path> flight_records_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == detail::kFlightSuffix) found.push_back(entry.path());
  }
  if (error) throw FileError("read", folder, error.value());
  // rank_10 comes after rank_2.
  std::ranges::sort(found, {}, [](const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    return std::pair(name.size(), name);
  });
  return found;
}

}  // namespace accelerate
