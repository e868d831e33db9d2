// What `accelerate report` prints of flight records.
#include <algorithm>
#include <array>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/terminal/table.h"
#include "accelerate/base/text.h"
#include "accelerate/formats/flight_record.h"
#include "accelerate/formats/hang_report.h"
#include "cli/commands/commands.h"

namespace accelerate::cli {
namespace {

// Calls of a rank that are shown.
constexpr std::size_t kShown = 10;

bool is_record(const std::filesystem::path& path) {
  return path.extension() == detail::kFlightSuffix;
}

// Sums and differences of times are unsigned, because the numbers of a hostile file may overflow.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// The newest time in the records, since 1970.
std::int64_t newest_ns(const std::vector<FlightRecord>& records) {
  std::int64_t newest = 0;
  for (const auto& record : records) {
    for (const auto& one : record.entries) {
      const auto last = std::max({one.begun_ns, one.waits_ns, one.ended_ns});
      newest = std::max(newest, plus(record.epoch_ns, last));
    }
  }
  return newest;
}

// "12:31:05.250", UTC. Of a damaged time returns something just as printable.
std::string time_text(const FlightRecord& record, std::int64_t monotonic_ns) {
  constexpr std::uint64_t kSecond = 1'000'000'000;
  const auto since_1970 = static_cast<std::uint64_t>(plus(record.epoch_ns, monotonic_ns));
  const auto seconds = static_cast<std::time_t>(since_1970 / kSecond);
  std::tm utc{};
  std::array<char, 16> text{};
  if (::gmtime_r(&seconds, &utc) == nullptr ||
      std::strftime(text.data(), text.size(), "%H:%M:%S", &utc) == 0) {
    return "?";
  }
  std::string fraction = std::to_string(since_1970 % kSecond / 1'000'000);
  fraction.insert(0, 3 - fraction.size(), '0');
  return std::string(text.data()) + "." + fraction;
}

std::string duration_text(const FlightEntry& entry) {
  switch (entry.state) {
    case FlightState::begun:
      return "begun";
    case FlightState::waiting:
      return "waits";
    case FlightState::failed:
      return "failed";
    case FlightState::ended:
      break;
  }
  const double us =
      (static_cast<double>(entry.ended_ns) - static_cast<double>(entry.begun_ns)) / 1e3;
  const auto rounded = std::to_string(static_cast<std::int64_t>(std::clamp(us, 0.0, 1e15)));
  return us < 10'000 ? rounded + " µs" : rounded.substr(0, rounded.size() - 3) + " ms";
}

void print_record(const FlightRecord& record, std::ostream& out) {
  out << "\nrank " << record.rank << " of " << record.world_size << ", process " << record.process
      << " on " << record.host << ": " << count_of(record.begun, "call")
      << (record.left_in_order ? ", left in order" : "") << "\n";
  if (record.damaged > 0) out << count_of(record.damaged, "slot") << " of the file are damaged\n";
  if (record.missing > 0) out << count_of(record.missing, "slot") << " of the file are cut off\n";
  if (record.entries.empty()) return;
  Table table({{"began (UTC)"}, {"took", Align::right}, {"call"}});
  const auto& entries = record.entries;
  for (auto i = entries.size() - std::min(kShown, entries.size()); i < entries.size(); ++i) {
    table.add_row(
        {time_text(record, entries[i].begun_ns), duration_text(entries[i]), describe(entries[i])});
  }
  out << table.box();
}

void print_comparison(const std::vector<FlightRecord>& records, std::ostream& out) {
  const std::int64_t newest = newest_ns(records);
  std::vector<detail::RankFinding> findings;
  bool hangs = false;
  for (const auto& record : records) {
    const auto since_1970 = static_cast<std::uint64_t>(record.epoch_ns);
    const std::uint64_t now = static_cast<std::uint64_t>(newest) - since_1970;
    findings.push_back(detail::finding_of(record, static_cast<std::int64_t>(now)));
    hangs = hangs || findings.back().where == detail::RankFinding::Where::waits;
  }
  if (hangs) out << detail::where_ranks_are(findings);
  for (const auto& one : detail::differences(records)) out << one << "\n";
}

}  // namespace

bool has_flight_records(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return is_record(path);
  for (const char* of_run : {"run_log.jsonl", "trainer_state.json"}) {
    if (std::filesystem::exists(path / of_run, ignored)) return false;
  }
  return !flight_records_in(path).empty();
}

int run_flight_report(const std::filesystem::path& path, std::ostream& out) {
  std::vector<FlightRecord> records;
  std::vector<std::string> unreadable;
  const auto files = is_record(path) ? std::vector{path} : flight_records_in(path);
  for (const auto& file : files) {
    try {
      records.push_back(read_flight_record(file));
    } catch (const CheckpointError& error) {
      unreadable.emplace_back(error.what());
    }
  }
  for (const auto& why : unreadable) out << why << "\n";
  if (records.empty()) return 1;
  std::ranges::sort(records, {}, &FlightRecord::rank);
  out << count_of(records.size(), "rank") << " of " << records.front().world_size
      << ", from flight records\n";
  print_comparison(records, out);
  for (const auto& record : records) print_record(record, out);
  return 0;
}

}  // namespace accelerate::cli
