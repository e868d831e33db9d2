// Reading flight records: whole ones, damaged, truncated and hostile ones.
#include "accelerate/formats/flight_record.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>

#include "accelerate/base/error.h"
#include "accelerate/formats/hang_report.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using detail::FlightHeader;
using detail::FlightSlot;
using detail::FlightWhat;

constexpr std::size_t kSlots = 4;

// The words of a slot, as a rank writes them.
struct Call {
  std::uint64_t position = 1;
  FlightKind kind = FlightKind::all_reduce;
  FlightState state = FlightState::ended;
  std::uint64_t number = 1;
};

void put(std::string& bytes, std::size_t offset, auto value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

// A record of rank `rank` of 3, with `calls` in their slots.
std::string record_of(int rank, const std::vector<Call>& calls) {
  std::string bytes(sizeof(FlightHeader) + kSlots * sizeof(FlightSlot), '\0');
  std::memcpy(bytes.data(), "ACCFLT01", 8);
  put(bytes, offsetof(FlightHeader, slot_bytes), std::uint32_t{128});
  put(bytes, offsetof(FlightHeader, slots), std::uint32_t{kSlots});
  put(bytes, offsetof(FlightHeader, rank), static_cast<std::uint32_t>(rank));
  put(bytes, offsetof(FlightHeader, world_size), std::uint32_t{3});
  put(bytes, offsetof(FlightHeader, begun), std::uint64_t{calls.size()});
  put(bytes, offsetof(FlightHeader, groups), std::uint32_t{1});
  std::memcpy(bytes.data() + offsetof(FlightHeader, host), "node-a", 6);
  detail::FlightGroupRow row{static_cast<std::uint32_t>(rank), 3, "world", "0-2"};
  std::memcpy(bytes.data() + offsetof(FlightHeader, rows), &row, sizeof(row));
  for (const Call& call : calls) {
    const std::size_t at = sizeof(FlightHeader) + (call.position - 1) % kSlots * sizeof(FlightSlot);
    put(bytes, at, call.position);
    put(bytes, at + 8, FlightWhat{call.state, call.kind, 6, 1, 0, {}});
    put(bytes, at + 16, call.number);
    put(bytes, at + 24, std::uint64_t{16});
    put(bytes, at + 32, std::int64_t{1'000'000'000} * static_cast<std::int64_t>(call.position));
    put(bytes, at + 40, std::int64_t{1'000'000'000} * static_cast<std::int64_t>(call.position));
    if (call.state == FlightState::ended) put(bytes, at + 48, std::int64_t{5'000'000'000});
    put(bytes, at + 56, ~std::uint64_t{0} << 32 | 77);
    put(bytes, at + 64, std::int64_t{4});
    std::memcpy(bytes.data() + at + 96, "save_state()", 12);
  }
  return bytes;
}

TEST(FlightRecord, IsReadInTheOrderOfItsCalls) {
  // The fifth call has taken the place of the first.
  const auto record = parse_flight_record(
      record_of(1, {{5, FlightKind::broadcast, FlightState::waiting, 5}, {2}, {3}, {4}}), "a");
  EXPECT_EQ(record.rank, 1);
  EXPECT_EQ(record.world_size, 3);
  EXPECT_EQ(record.host, "node-a");
  ASSERT_EQ(record.entries.size(), 4U);
  EXPECT_EQ(record.entries[0].position, 2U);
  EXPECT_EQ(describe(record.entries[3]),
            "save_state(): broadcast #5 of Float[4] (16.00 B, group world)");
  EXPECT_EQ(record.entries[3].thread, 77U);
  EXPECT_FALSE(record.entries[3].is_over());
}

TEST(FlightRecord, RefusesWhatIsNone) {
  struct Row {
    std::function<void(std::string&)> damage;
    const char* message;
  };
  const auto set = [](std::size_t offset, std::uint32_t value) {
    return [=](std::string& bytes) { put(bytes, offset, value); };
  };
  const std::vector<Row> rows{
      {[](std::string& bytes) { bytes.clear(); }, "has 0 bytes"},
      {[](std::string& bytes) { bytes.resize(4095); }, "has 4095 bytes"},
      {[](std::string& bytes) { bytes[0] = 'X'; }, "does not begin as one"},
      {set(offsetof(FlightHeader, slot_bytes), 64), "slots have 64 bytes"},
      {set(offsetof(FlightHeader, slots), 0), "has 0 slots"},
      {set(offsetof(FlightHeader, slots), 0xffffffff), "has 4294967295 slots"},
      {set(offsetof(FlightHeader, rank), 3), "rank 3 of 3"},
      {set(offsetof(FlightHeader, world_size), 0), "of rank 1 of 0"},
      {set(offsetof(FlightHeader, world_size), 0xffffffff), "of 4294967295"},
  };
  for (const auto& row : rows) {
    std::string bytes = record_of(1, {{1}});
    row.damage(bytes);
    const auto message =
        testing::message_of<CheckpointError>([&] { (void)parse_flight_record(bytes, "a\x1b"); });
    EXPECT_NE(message.find(row.message), std::string::npos) << message;
    EXPECT_EQ(message.find('\x1b'), std::string::npos);
  }
}

TEST(FlightRecord, ShowsWhatATruncatedFileStillHas) {
  std::string bytes = record_of(0, {{1}, {2}, {3}});
  bytes.resize(sizeof(FlightHeader) + 2 * sizeof(FlightSlot) + 5);
  const auto record = parse_flight_record(bytes, "a");
  EXPECT_EQ(record.entries.size(), 2U);
  EXPECT_EQ(record.missing, 2U);
}

TEST(FlightRecord, CountsSlotsThatNoRankHasWritten) {
  std::string bytes = record_of(0, {{1}, {2}, {3}, {4}});
  put(bytes, sizeof(FlightHeader), std::uint64_t{2});  // Its place is another.
  put(bytes, sizeof(FlightHeader) + sizeof(FlightSlot) + 8, std::uint8_t{9});       // No state.
  put(bytes, sizeof(FlightHeader) + 2 * sizeof(FlightSlot) + 9, std::uint8_t{99});  // No kind.
  const auto record = parse_flight_record(bytes, "a");
  EXPECT_EQ(record.entries.size(), 1U);
  EXPECT_EQ(record.damaged, 3U);
}

TEST(FlightRecord, HostileTextIsSafeToPrint) {
  std::string bytes = record_of(0, {{1}});
  const std::string evil = "\x1b[2J\n\xff";
  std::memcpy(bytes.data() + offsetof(FlightHeader, host), evil.data(), evil.size());
  std::memcpy(bytes.data() + offsetof(FlightHeader, rows) + 8, evil.data(), evil.size());
  std::memcpy(bytes.data() + sizeof(FlightHeader) + 96, evil.data(), evil.size());
  const auto record = parse_flight_record(bytes, "a");
  for (const std::string& text : {record.host, describe(record.entries.at(0))}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST(FlightRecord, RandomDamageIsReadOrRefused) {
  std::mt19937 random(1);
  const std::string whole = record_of(0, {{1}, {2}, {3}, {4}});
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (int change = 0; change < 8; ++change) {
      // Most of the bytes are groups that nobody reads: damages what is read more often.
      const std::size_t end = change % 2 == 0 ? 300 : bytes.size();
      bytes[random() % end] = static_cast<char>(random());
      bytes[bytes.size() - 1 - random() % 512] = static_cast<char>(random());
    }
    if (round % 3 == 0) bytes.resize(random() % bytes.size());
    try {
      const auto record = parse_flight_record(bytes, "a");
      EXPECT_LE(record.entries.size(), kSlots);
      (void)detail::hang_report({detail::finding_of(record, 0)});
      (void)detail::differences({record, record});
    } catch (const CheckpointError&) {
    }
  }
}

// --- what records of several ranks say together ---
FlightRecord parsed(int rank, const std::vector<Call>& calls) {
  return parse_flight_record(record_of(rank, calls), "a");
}

TEST(HangReport, NamesTheFirstCallThatDiffers) {
  const auto other = Call{2, FlightKind::all_gather, FlightState::waiting, 2};
  const auto usual = Call{2, FlightKind::all_reduce, FlightState::waiting, 2};
  const auto found = detail::differences(
      {parsed(0, {{1}, usual}), parsed(1, {{1}, other}), parsed(2, {{1}, usual})});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0],
            "In group world (ranks 0-2) call #2 differs: rank 1: all_gather #2 of Float[4] (16.00 "
            "B, group world); ranks 0, 2: all_reduce #2 of Float[4] (16.00 B, group world).");
}

TEST(HangReport, NamesRanksThatHaveMadeFewerCalls) {
  const auto waits = Call{2, FlightKind::all_reduce, FlightState::waiting, 2};
  const auto found = detail::differences({parsed(0, {{1}, waits}), parsed(1, {{1}})});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0],
            "In group world (ranks 0-2) rank 1 has begun call #1, rank 0 has begun call #2.");
  EXPECT_TRUE(detail::differences({parsed(0, {{1}}), parsed(1, {{1}})}).empty());
}

detail::RankFinding finding(int rank, detail::RankFinding::Where where, const std::string& call) {
  return {rank, where, call, "world", 30.2, "process " + std::to_string(100 + rank), ""};
}

TEST(HangReport, PutsRanksTogetherAndSaysWhatItMeans) {
  using enum detail::RankFinding::Where;
  struct Row {
    std::vector<detail::RankFinding> findings;
    const char* says;
    const char* means;
  };
  const std::vector<Row> rows{
      {{finding(0, waits, "b"), finding(1, waits, "b"), finding(2, waits, "a")},
       "ranks 0, 1 wait in b for 30 s\n  rank 2 waits in a for 30 s",
       "takes another path on rank 2 than on ranks 0, 1"},
      {{finding(0, waits, "b"), finding(1, outside, "a")},
       "rank 1 is in no collective: its last, a, ended 30 s ago",
       "They wait for rank 1: the stacks"},
      {{finding(0, waits, "b"), finding(1, outside, "")}, "it has made none so far", "for rank 1"},
      {{finding(0, waits, "b"), finding(1, silent, "")},
       "rank 1 does not answer: it is process 101",
       "They wait for rank 1. A stopped process"},
      {{finding(0, waits, "b"), finding(1, waits, "b")}, "ranks 0, 1 wait in b", "a network"},
  };
  for (const auto& row : rows) {
    const auto report = detail::hang_report(row.findings);
    EXPECT_NE(report.find(row.says), std::string::npos) << report;
    EXPECT_NE(report.find(row.means), std::string::npos) << report;
  }
}

TEST(HangReport, AnAnswerComesBackAsItWasSentAndABadOneIsASilentRank) {
  auto sent = finding(1, detail::RankFinding::Where::waits, "b");
  sent.stacks = "  thread main 7:\n    f (p)\n";
  const auto back = detail::from_message(detail::to_message(sent), 1);
  EXPECT_EQ(back.call, "b");
  EXPECT_EQ(back.where, detail::RankFinding::Where::waits);
  EXPECT_EQ(back.stacks, sent.stacks);
  for (const char* bad : {"", "[]", "{", "{\"call\":1}", "\xff", "null"}) {
    EXPECT_EQ(detail::from_message(bad, 1).where, detail::RankFinding::Where::silent) << bad;
  }
}

}  // namespace
}  // namespace accelerate
