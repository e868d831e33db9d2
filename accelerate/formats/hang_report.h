// What ranks say when nothing goes on, and the report that is made of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accelerate/formats/flight_record.h"

namespace accelerate::detail {

/// What is known about a rank of a job that hangs.
struct RankFinding {
  enum class Where { waits, outside, silent };

  int rank = 0;
  Where where = Where::silent;
  /// If it waits: the call, e.g. "all_reduce #418 of Float[4] (16.00 B, group world)". If it is
  /// outside of every call: the last one that it made; empty if it made none.
  std::string call = {};
  std::string group = {};    ///< Of the call.
  double seconds = 0;        ///< How long it waits, or how long ago the last call ended.
  std::string process = {};  ///< "process 1234", and ", which is stopped" where that is seen.
  std::string stacks = {};   ///< Of all its threads; empty if it is silent.
};

/// Returns where this rank is, without `process` and `stacks`. `now_ns`: monotonic.
[[nodiscard]] RankFinding finding_of(const FlightRecord& record, std::int64_t now_ns);

/// Compares the calls of the ranks of a job, group by group. Returns a sentence for each group whose
/// ranks do not make the same calls: the first call that differs, and who makes it. Empty if the
/// records say the same as far as they reach.
[[nodiscard]] std::vector<std::string> differences(const std::vector<FlightRecord>& records);

/// A finding as a rank sends it to its peers.
[[nodiscard]] std::string to_message(const RankFinding& finding);
/// Reads a message of `rank`. A message that cannot be read is a silent rank. Texts become safe to
/// print.
[[nodiscard]] RankFinding from_message(const std::string& message, int rank);

/// Says where every rank is, a line for each call and for each rank that is in none. Waits of the
/// same call stand together.
[[nodiscard]] std::string where_ranks_are(const std::vector<RankFinding>& findings);

/// Says where every rank is, and what that means: "rank 2 waits in …; ranks 0, 1, 3 wait in …".
/// `findings` are by rank. Stacks stand last; those of ranks that others wait for come first.
[[nodiscard]] std::string hang_report(const std::vector<RankFinding>& findings);

}  // namespace accelerate::detail
