// `accelerate report` of flight records, as a user meets it.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "accelerate/formats/flight_record.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::RunResult;
using testing::TemporaryFolder;

class FlightReport : public ::testing::Test {
 protected:
  // Writes the record of a rank that has begun `calls` barriers and waits in the last one.
  void write(int rank, int calls) {
    detail::FlightHeader header{};
    std::memcpy(header.magic, "ACCFLT01", 8);
    header.slot_bytes = sizeof(detail::FlightSlot);
    header.slots = 8;
    header.rank = static_cast<std::uint32_t>(rank);
    header.world_size = 2;
    header.begun = static_cast<std::uint64_t>(calls);
    header.groups = 1;
    header.rows[0] = {static_cast<std::uint32_t>(rank), 2, "world", "0, 1"};
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    for (int i = 1; i <= calls; ++i) {
      detail::FlightSlot slot{};
      slot.position = static_cast<std::uint64_t>(i);
      slot.number = static_cast<std::uint64_t>(i);
      const bool waits = i == calls;
      const detail::FlightWhat what{
          waits ? FlightState::waiting : FlightState::ended, FlightKind::barrier, 0xff, 0, 0, {}};
      std::uint64_t word = 0;
      std::memcpy(&word, &what, sizeof(word));
      slot.what = word;
      slot.begun_ns = slot.waits_ns = i * 1'000'000;
      slot.ended_ns = waits ? 0 : i * 1'000'000 + 7'000;
      slot.peer_and_thread = ~std::uint64_t{0} << 32;
      bytes.append(reinterpret_cast<const char*>(&slot), sizeof(slot));
    }
    bytes.resize(sizeof(header) + 8 * sizeof(detail::FlightSlot));
    std::ofstream(folder_.path() / ("rank_" + std::to_string(rank) + ".flight")) << bytes;
  }

  RunResult report(const std::filesystem::path& path) {
    return testing::run_program({testing::accelerate_program(), "report", path.string()},
                                {.env = {{"LC_ALL", "C.UTF-8"}},
                                 .timeout = std::chrono::seconds(20),
                                 .working_directory = folder_.path()});
  }

  TemporaryFolder folder_;
};

TEST_F(FlightReport, SaysWhereRanksAreAndListsTheirLastCalls) {
  write(0, 3);
  write(1, 2);
  const auto result = report(folder_.path());
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const char* expected :
       {"2 ranks of 2, from flight records", "rank 0 waits in barrier #3 (group world)",
        "rank 1 has begun call #2, rank 0 has begun call #3", "00:00:00.001", "7 µs"}) {
    EXPECT_NE(result.out.find(expected), std::string::npos) << expected << "\n" << result.out;
  }
  EXPECT_FALSE(std::filesystem::exists(folder_.path() / "report.html"));
}

TEST_F(FlightReport, OneFileIsEnoughAndADamagedOneIsNamed) {
  write(0, 1);
  EXPECT_EQ(report(folder_.path() / "rank_0.flight").exit_code, 0);
  std::ofstream(folder_.path() / "rank_1.flight") << "nothing";
  const auto both = report(folder_.path());
  EXPECT_EQ(both.exit_code, 0) << both.err;
  EXPECT_NE(both.out.find("rank_1.flight is no flight record"), std::string::npos) << both.out;
  EXPECT_EQ(report(folder_.path() / "rank_1.flight").exit_code, 1);
}

TEST_F(FlightReport, AFileThatIsMissingIsAnError) {
  const auto result = report(folder_.path() / "rank_9.flight");
  EXPECT_NE(result.exit_code, 0);
  EXPECT_NE(result.err.find("cannot open"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace accelerate::cli
