// A run as a terminal shows it. Keys and real terminals are tested in watch_live.py.
#include "accelerate/watch/terminal/run_frame.h"

#include <gtest/gtest.h>

#include <cmath>

#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/watch/terminal/terminal_chart.h"
#include "tests/watch/run_log/runs.h"

namespace accelerate {
namespace {

using testing::a_whole_run;
using testing::kHostile;

std::string text_of(const std::vector<StyledLine>& lines) {
  std::string text;
  for (const auto& line : lines) text += terminal_bytes(line, TerminalColours::none) + "\n";
  return text;
}

std::string frame_text(const RunHistory& history, std::size_t columns, std::size_t rows,
                       bool utf8) {
  return text_of(run_frame(history, {.name = "my run",
                                     .columns = columns,
                                     .rows = rows,
                                     .utf8 = utf8,
                                     .now = 1101,
                                     .footer = "q leaves"}));
}

RunHistory a_hostile_run() {
  RunHistory history = a_whole_run();
  history.begin->model = history.begin->strategy = kHostile;
  history.add(RunEvaluated{.step = 100, .metrics = {{kHostile, 1}, {"漢字漢字_loss", 2}}});
  history.add(RunNote{.step = 100, .text = kHostile + "漢字漢字漢字漢字漢字"});
  history.add(RunSaved{.step = 100, .folder = kHostile, .best = true});
  history.end->reason = kHostile;
  return history;
}

TEST(RunFrame, FitsEveryTerminal) {
  const RunHistory histories[] = {a_whole_run(), a_hostile_run(), RunHistory{}};
  for (const auto& history : histories)
    for (const bool utf8 : {true, false})
      for (std::size_t columns : {1, 2, 7, 20, 40, 80, 95, 96, 97, 200})
        for (std::size_t rows : {1, 2, 3, 5, 8, 12, 24, 60}) {
          const auto lines = split(frame_text(history, columns, rows, utf8), '\n');
          ASSERT_LE(lines.size() - 1, rows);
          for (const auto& line : lines) {
            ASSERT_LE(display_width(line), columns) << line;
            ASSERT_EQ(line.find('\x1b'), std::string::npos);
            ASSERT_TRUE(!utf8 || is_utf8(line));
            for (const char c : line) ASSERT_TRUE(utf8 || (c >= 0x20 && c < 0x7f)) << line;
          }
        }
}

TEST(RunFrame, ShowsTheRunIn80By24AndIn40By12) {
  const auto check = [](std::size_t columns, std::size_t rows, std::vector<std::string> parts) {
    const std::string text = frame_text(a_whole_run(), columns, rows, true);
    for (const auto& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
    return split(text, '\n').size() - 1;
  };
  EXPECT_EQ(check(80, 24,
                  {"my run  Net", "finished", "100%", "100/100", "loss", "eval_loss 0.5",
                   "best 0.4 at step 50", "lr ", "samples/s 32", "━ eval_loss", "step 1 s",
                   "backward 40%", "2 checkpoints: checkpoint-50 ★ best", "q leaves"}),
            24U);
  check(40, 12, {"my run", "finished", "100%", "loss", "step 1 s", "2 checkpoints", "q leaves"});
}

TEST(RunFrame, TellsTheTimeLeft) {
  RunHistory history;
  history.add(testing::a_begin());
  history.add(testing::a_log(25));
  const std::string text = frame_text(history, 80, 24, false);
  EXPECT_NE(text.find("25/100 [00:25<01:15, 1.00it/s"), std::string::npos) << text;
  EXPECT_NE(run_line(history, "a").find("a: 25/100 (25%) [00:25<01:15"), std::string::npos);
}

TEST(TerminalChart, DrawsAFallingLine) {
  detail::ChartSeries series{"a", {{0, 3}, {3, 0}}};
  const auto lines = detail::terminal_chart({series}, {.columns = 12, .rows = 5, .utf8 = false});
  ASSERT_EQ(lines.size(), 5U);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < 4; ++i)
    places.push_back(terminal_bytes(lines[i], TerminalColours::none).find('*'));
  EXPECT_LT(places[0], places[1]);
  EXPECT_LT(places[1], places[2]);
  EXPECT_LT(places[2], places[3]);
}

TEST(TerminalChart, IsNothingWithoutRoomOrNumbers) {
  const detail::ChartSeries numbers{"a", {{0, 1}, {1, 2}}};
  const detail::ChartSeries none{"a", {{0, std::nan("")}}};
  EXPECT_TRUE(detail::terminal_chart({none}, {}).empty());
  EXPECT_TRUE(detail::terminal_chart({}, {}).empty());
  EXPECT_TRUE(detail::terminal_chart({numbers}, {.columns = 11}).empty());
  EXPECT_TRUE(detail::terminal_chart({numbers}, {.rows = 2}).empty());
}

TEST(TerminalChart, LeavesAGapWhereAValueIsNoNumber) {
  const detail::ChartSeries series{"a", {{0, 1}, {4, 1}, {5, std::nan("")}, {6, 1}, {10, 1}}};
  const auto lines = detail::terminal_chart({series}, {.columns = 40, .rows = 4, .utf8 = false});
  std::vector<std::string> rows;
  for (const auto& row : split(text_of(lines), '\n'))
    if (row.find('*') != std::string::npos) rows.push_back(row);
  ASSERT_EQ(rows.size(), 1U) << text_of(lines);
  const auto first = rows[0].find('*');
  EXPECT_NE(rows[0].substr(first, rows[0].rfind('*') - first).find("*  "), std::string::npos);
}

TEST(StepSplit, HasBarsByTheirShares) {
  const auto lines = detail::step_split_lines({.forward = 1, .backward = 3},
                                              {.columns = 47, .legend = true, .utf8 = false});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(text_of(lines),
            "step 4 s ffffffffffbbbbbbbbbbbbbbbbbbbbbbbbbbbb\n"
            "f forward 25%  b backward 75%\n");
  EXPECT_TRUE(detail::step_split_lines({}, {}).empty());
}

TEST(TerminalText, WritesColoursOnlyWhereThereAre) {
  const StyledLine line = {{"a", TextStyle::plain}, {"b", TextStyle::good}};
  EXPECT_EQ(terminal_bytes(line, TerminalColours::none), "ab");
  EXPECT_EQ(terminal_bytes(line, TerminalColours::sixteen), "a\x1b[32mb\x1b[0m");
  EXPECT_EQ(terminal_bytes(line, TerminalColours::many), "a\x1b[38;5;78mb\x1b[0m");
}

TEST(TerminalText, FindsTheColoursOfTheEnvironment) {
  const auto colours = [](const char* term, const char* colour_term, const char* no_colour) {
    const testing::ScopedEnv a("TERM", term), b("COLORTERM", colour_term), c("NO_COLOR", no_colour);
    return terminal_colours();
  };
  EXPECT_EQ(colours("dumb", nullptr, nullptr), TerminalColours::none);
  EXPECT_EQ(colours(nullptr, nullptr, nullptr), TerminalColours::none);
  EXPECT_EQ(colours("xterm", nullptr, nullptr), TerminalColours::sixteen);
  EXPECT_EQ(colours("xterm-256color", nullptr, nullptr), TerminalColours::many);
  EXPECT_EQ(colours("xterm", "truecolor", nullptr), TerminalColours::many);
  EXPECT_EQ(colours("xterm-256color", "truecolor", "1"), TerminalColours::none);
}

}  // namespace
}  // namespace accelerate
