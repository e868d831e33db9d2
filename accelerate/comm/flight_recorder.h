// Writes the flight record of this rank (formats/flight_record.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/comm/sentence.h"
#include "accelerate/formats/flight_record.h"

namespace accelerate::detail {

class FlightRecorder;

/// A collective in the record. An empty ticket does nothing. Move-only.
class FlightTicket {
 public:
  FlightTicket() = default;
  FlightTicket(FlightTicket&&) = default;
  FlightTicket& operator=(FlightTicket&&) = default;

  /// A thread begins to wait for the result.
  void waits() const;
  void ends() const { close(FlightState::ended); }
  void fails() const { close(FlightState::failed); }

 private:
  friend class FlightRecorder;
  FlightTicket(std::shared_ptr<FlightRecorder> recorder, FlightSlot& slot, FlightWhat what,
               std::uint64_t position)
      : recorder_(std::move(recorder)), slot_(&slot), what_(what), position_(position) {}
  void close(FlightState state) const;
  void set_state(FlightState state) const;

  std::shared_ptr<FlightRecorder> recorder_;  // Its memory.
  FlightSlot* slot_ = nullptr;
  FlightWhat what_{};
  std::uint64_t position_ = 0;
};

/// Of a group, what its collectives are recorded under.
struct GroupFlight {
  std::shared_ptr<FlightRecorder> recorder = nullptr;  ///< Null: nothing is recorded.
  std::uint8_t group = 0;

  /// Records that this thread begins `what`. `number`: among the group's collectives; 0 for a
  /// message.
  [[nodiscard]] FlightTicket begin(const Sentence& what, std::uint64_t number) const;
};

/// What a group is called, and where its calls are recorded.
struct GroupLabel {
  std::shared_ptr<FlightRecorder> recorder = nullptr;
  std::string name = "world";
  std::vector<int> ranks = {};  ///< Its members, as ranks of the job.
};

/// Returns the label of part number `number` of a group, which has `ranks` of the group. Local.
[[nodiscard]] GroupLabel label_of_part(const GroupLabel& whole, const std::vector<int>& ranks,
                                       int number);

/// Adds the group to its recorder, if it has one. See FlightRecorder::add_group.
[[nodiscard]] GroupFlight flight_of(const GroupLabel& label, int rank, int size);

struct FlightOptions {
  int rank = 0;
  int world_size = 1;
  std::uint32_t slots = 2000;
  std::filesystem::path file = {};  ///< Empty: in memory, until write_to().
};

/// Threads: everything may be called from any thread.
class FlightRecorder : public std::enable_shared_from_this<FlightRecorder> {
 public:
  /// A file that exists is replaced. Throws FileError.
  explicit FlightRecorder(const FlightOptions& options);
  /// Marks the record as that of a rank that left in order.
  ~FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;

  /// Adds the group of `label`, in which this rank is `rank` of `size`. The record names 31 groups;
  /// calls of later ones are recorded without a name. Cost: a table lookup.
  [[nodiscard]] GroupFlight add_group(const GroupLabel& label, int rank, int size);

  /// Records that this thread begins `what`. Cost: a relaxed store for each word, and a clock read.
  [[nodiscard]] FlightTicket begin(std::uint8_t group, const Sentence& what, std::uint64_t number);

  /// The collective in which a thread has waited longest; nullopt if none waits.
  struct Wait {
    std::uint64_t position;
    std::int64_t since_ns;
  };
  [[nodiscard]] std::optional<Wait> longest_wait() const;
  [[nodiscard]] std::uint64_t begun() const;
  /// What a reader of the file would see now.
  [[nodiscard]] FlightRecord read() const;

  /// Writes the record to `file`, which is replaced; does nothing if it is the recorder's own file.
  /// Throws FileError.
  void write_to(const std::filesystem::path& file) const;

  [[nodiscard]] const FlightOptions& options() const { return options_; }
  /// Monotonic time, as the record counts it.
  [[nodiscard]] static std::int64_t now_ns();

 private:
  [[nodiscard]] FlightHeader& header() const { return *reinterpret_cast<FlightHeader*>(memory_); }
  [[nodiscard]] FlightSlot& slot(std::uint64_t position) const;
  [[nodiscard]] std::string_view bytes() const;
  void map();

  FlightOptions options_;
  std::byte* memory_ = nullptr;
  std::size_t size_bytes_ = 0;
  std::mutex mutex_;  // Guards the table of groups.
};

}  // namespace accelerate::detail
