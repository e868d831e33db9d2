// The flight record of a rank: a file with its last collectives, which the rank maps and writes as
// it goes, so that it survives the rank. docs/formats/flight_record.md describes the bytes.
//
// The first half of this header is the layout, for the rank that writes (comm/flight_recorder.h).
// The second half is what a reader gets.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

enum class FlightKind : std::uint8_t {
  other,
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  gather,
  scatter,
  all_to_all,
  barrier,
  send,
  receive,
  meeting,  ///< The first barrier of a group, in which its ranks meet.
};

/// "all_reduce", …
[[nodiscard]] const char* to_string(FlightKind kind);

enum class FlightState : std::uint8_t { begun = 1, waiting, ended, failed };

namespace detail {

inline constexpr std::size_t kFlightGroups = 31;
inline constexpr std::size_t kFlightDims = 4;

/// A collective, in two cache lines. Every word is written by the thread that makes the call, and
/// read by others at any time.
struct FlightSlot {
  std::atomic<std::uint64_t> position;  ///< 1 for the first collective of the process; 0: empty.
  std::atomic<std::uint64_t> what;      ///< See FlightWhat.
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> bytes;
  std::atomic<std::int64_t> begun_ns;  ///< Monotonic, as the next two.
  std::atomic<std::int64_t> waits_ns;  ///< When a thread began to wait; 0: not yet.
  std::atomic<std::int64_t> ended_ns;  ///< 0: not yet.
  std::atomic<std::uint64_t> peer_and_thread;
  std::array<std::atomic<std::int64_t>, kFlightDims> sizes;
  std::array<std::atomic<std::uint64_t>, 4> call;  ///< Text, filled up with zeros.
};
static_assert(sizeof(FlightSlot) == 128 && std::atomic<std::uint64_t>::is_always_lock_free);

/// The bytes of FlightSlot::what.
struct FlightWhat {
  FlightState state;
  FlightKind kind;
  std::uint8_t dtype;  ///< c10::ScalarType; 0xff without a tensor.
  std::uint8_t dims;   ///< Of the tensor; `sizes` has the first kFlightDims.
  std::uint8_t group;  ///< Index of the group's row; kFlightGroups where the table was full.
  std::uint8_t zeros[3];
};
static_assert(sizeof(FlightWhat) == 8);

struct FlightGroupRow {
  std::uint32_t rank;
  std::uint32_t size;
  char name[40];
  char ranks[80];  ///< Ranks of the job, e.g. "0, 2-5".
};
static_assert(sizeof(FlightGroupRow) == 128);

struct FlightHeader {
  char magic[8];
  std::uint32_t slot_bytes;
  std::uint32_t slots;
  std::uint32_t rank;
  std::uint32_t world_size;
  std::uint64_t process;
  std::int64_t epoch_ns;  ///< Time since 1970 of monotonic time 0.
  std::atomic<std::uint64_t> begun;
  std::atomic<std::uint32_t> groups;
  std::atomic<std::uint32_t> ended;  ///< 1: the rank left its group in order.
  std::uint64_t zeros;
  char host[64];
  std::array<FlightGroupRow, kFlightGroups> rows;
};
static_assert(sizeof(FlightHeader) == 4096);

inline constexpr std::string_view kFlightMagic{"ACCFLT01", 8};
inline constexpr std::string_view kFlightSuffix = ".flight";
/// Slots that a record may have: 128 MiB.
inline constexpr std::uint32_t kMostFlightSlots = 1U << 20;

}  // namespace detail

struct FlightGroup {
  int rank = 0;
  int size = 0;
  std::string name;   ///< "world", …
  std::string ranks;  ///< Ranks of the job, e.g. "0, 2-5".
};

struct FlightEntry {
  std::uint64_t position = 0;  ///< Among the collectives of the process, from 1.
  FlightState state = FlightState::begun;
  FlightKind kind = FlightKind::other;
  std::string dtype;                ///< "Float"; empty without a tensor.
  std::vector<std::int64_t> sizes;  ///< The first four.
  bool has_more_sizes = false;
  FlightGroup group;
  std::uint64_t number = 0;  ///< Among the group's collectives, from 1; 0 for a message.
  std::uint64_t bytes = 0;
  int peer = -1;             ///< The rank at the other end of a message; -1 for a collective.
  std::uint32_t thread = 0;  ///< The system's number of the thread that made the call.
  std::int64_t begun_ns = 0, waits_ns = 0, ended_ns = 0;  ///< Monotonic; 0: not yet.
  std::string call;  ///< The user's call, e.g. "save_state()"; empty if the collective is its own.

  [[nodiscard]] bool is_over() const {
    return state == FlightState::ended || state == FlightState::failed;
  }
};

/// "all_reduce #418 of Float[2048, 1024] (8.00 MB, group world)", "send to rank 3 of Byte[4] …".
[[nodiscard]] std::string describe(const FlightEntry& entry);

struct FlightRecord {
  int rank = 0;
  int world_size = 1;
  std::uint64_t process = 0;
  std::string host;
  std::int64_t epoch_ns = 0;  ///< Time since 1970 of monotonic time 0.
  std::uint64_t begun = 0;    ///< Collectives begun, of which the record keeps the last.
  bool left_in_order = false;
  std::vector<FlightGroup> groups;
  std::vector<FlightEntry> entries;  ///< In the order in which they began.
  std::size_t damaged = 0;           ///< Slots that no rank can have written.
  std::size_t missing = 0;           ///< Slots that a truncated file has lost.
};

/// Reads a record that is complete, or that a rank still writes. `bytes` come from anywhere: texts
/// of the result are safe to print. Throws CheckpointError for bytes that are no record; `name` is
/// for the error.
[[nodiscard]] FlightRecord parse_flight_record(std::string_view bytes, const std::string& name);

/// As above, of a file. Throws FileError too.
[[nodiscard]] FlightRecord read_flight_record(const std::filesystem::path& file);

/// Returns the records in `folder`, by rank; empty if it has none. Throws FileError.
[[nodiscard]] std::vector<std::filesystem::path> flight_records_in(
    const std::filesystem::path& folder);

namespace detail {
/// Returns LibTorch's name of a dtype by its number; "?" for an unknown number.
[[nodiscard]] std::string flight_dtype(std::uint8_t number);
}  // namespace detail

}  // namespace accelerate
