// Notices that a job hangs, and says where each of its ranks is. docs/when_it_hangs.md shows a
// report.
//
// Each rank has one thread. While collectives end, the thread looks at the flight record of its
// rank and at nothing else, except for a query to the store every few seconds. When a call of this
// rank has waited for the limit, the thread asks all ranks over the store. Every rank answers with
// its call and the stacks of its threads, writes them into its files, and rank 0 logs the report.
// When rank 0 does not, the next rank that answered does. The watch ends nothing: the timeout of
// the group does.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "accelerate/comm/flight_recorder.h"
#include "accelerate/comm/job_connection.h"

namespace accelerate::detail {

struct HangOptions {
  std::chrono::milliseconds limit{60'000};    ///< Of a wait, before ranks are asked; 0: no thread.
  std::chrono::milliseconds interval{1'000};  ///< Between looks.
  std::chrono::milliseconds timeout{};        ///< Of the group, for the report.
  /// Files of rank r are `prefix`r.flight and `prefix`r.stacks.txt. Empty: they are written when
  /// the job hangs, into a new folder for temporary files.
  std::string prefix = {};
  std::uint32_t slots = 2000;  ///< Of the flight record; 0: neither a record nor a watch.
};

/// Reads ACCELERATE_HANG_LIMIT, ACCELERATE_MONITOR_INTERVAL, TORCH_FR_BUFFER_SIZE and
/// TORCH_FR_DUMP_TEMP_FILE (or LibTorch's older names, TORCH_NCCL_TRACE_BUFFER_SIZE and
/// TORCH_NCCL_DEBUG_INFO_TEMP_FILE). Without a limit it is a minute, or half of `timeout` if that is
/// less; none for a timeout of less than ten seconds. Throws ConfigError.
[[nodiscard]] HangOptions hang_options_from_env(std::chrono::milliseconds timeout);

/// The record of this rank and its watch. Local; nothing here waits for a peer.
class HangWatch {
 public:
  /// Makes the record. Throws FileError where its file cannot be made.
  HangWatch(int rank, int world_size, HangOptions options);
  /// Ends the thread. Waits up to two seconds if it talks to a store that does not answer.
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  /// Tells the peers about this process. To be called before the group of all ranks is made. Throws
  /// what the store throws. Cost: one message to the store.
  void introduce(const JobStore& store);
  /// Starts the thread, unless the limit is 0. To be called when the group is made. The thread opens
  /// a connection of its own. Cost: one query to the store.
  void start();

  /// Null if nothing is recorded.
  [[nodiscard]] const std::shared_ptr<FlightRecorder>& recorder() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace accelerate::detail
