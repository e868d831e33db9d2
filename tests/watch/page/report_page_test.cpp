// The page of a run. That it is HTML, and how it looks, is tested in page_live.py and
// browser_live.py.
#include "accelerate/watch/page/report_page.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>

#include "accelerate/watch/run_log/axis.h"
#include "accelerate/watch/run_log/display_text.h"
#include "accelerate/watch/run_log/series.h"
#include "tests/watch/run_log/runs.h"

namespace accelerate {
namespace {

using testing::a_begin;
using testing::a_log;
using testing::a_whole_run;
using testing::kHostile;

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string labels(double low, double high, int wanted) {
  std::string text;
  for (const auto& tick : detail::axis_ticks({low, high}, wanted)) text += tick.label + " ";
  return text;
}

TEST(AxisTicks, AreNiceNumbers) {
  EXPECT_EQ(labels(0, 1, 4), "0 0.2 0.4 0.6 0.8 1.0 ");
  EXPECT_EQ(labels(0.7312, 0.93, 4), "0.75 0.80 0.85 0.90 ");
  EXPECT_EQ(labels(0, 100'000, 5), "0 20k 40k 60k 80k 100k ");
  EXPECT_EQ(labels(0, 3e-05, 3), "0 1e-5 2e-5 3e-5 ");
  EXPECT_EQ(labels(-5, 5, 2), "-5 0 5 ");
  EXPECT_EQ(labels(9'999, 10'003, 4), "9.999k 10.000k 10.001k 10.002k 10.003k ");
}

TEST(AxisTicks, AreFewForAnyRange) {
  for (double low : {-1e200, -1e-200, 0.0, 1.0, 1e150})
    for (double size : {1e-9, 1.0, 3.7e20, 1e200}) {
      const double high = low + std::abs(low) * size + size;
      if (!(high > low)) continue;
      const auto ticks = detail::axis_ticks({low, high}, 4);
      EXPECT_LE(ticks.size(), 9U);
      for (const auto& tick : ticks) EXPECT_LE(tick.label.size(), 18U) << tick.label;
    }
}

TEST(AxisExtent, TakesFiniteNumbersAndGivesRoom) {
  detail::AxisExtent extent;
  for (const double value : {kNoNumber, 5.0, std::numeric_limits<double>::infinity(), 7.0})
    extent.add(value);
  EXPECT_LT(extent.padded().low, 5);
  EXPECT_GT(extent.padded().low, 4);
  EXPECT_EQ(extent.exact().high, 7);
  detail::AxisExtent single;
  single.add(0);
  EXPECT_LT(single.padded().low, single.padded().high);
}

TEST(ThinPoints, KeepExtremesAndGapsOfEachColumn) {
  std::vector<detail::ChartPoint> points;
  for (int i = 0; i < 100'000; ++i) points.push_back({static_cast<double>(i), std::sin(i)});
  points[50'123].y = 77;
  points[50'124].y = -77;
  points[60'000].y = kNoNumber;
  const auto thin = detail::thin_points(points, {0, 99'999}, 500);
  EXPECT_LE(thin.size(), 1'503U);
  double low = 0, high = 0, gaps = 0;
  for (std::size_t i = 0; i < thin.size(); ++i) {
    EXPECT_TRUE(i == 0 || thin[i - 1].x < thin[i].x);
    low = std::min(low, thin[i].y);
    high = std::max(high, thin[i].y);
    gaps += std::isnan(thin[i].y) ? 1 : 0;
  }
  EXPECT_EQ(low, -77);
  EXPECT_EQ(high, 77);
  EXPECT_EQ(gaps, 1);
}

TEST(DisplayText, LetsNothingThroughThatAPageOrTerminalObeys) {
  const std::string html = detail::html_text(kHostile);
  for (const char c : {'<', '>', '"', '\'', '\x1b', '\x07', '\n', '\r'})
    EXPECT_EQ(html.find(c), std::string::npos) << html;
  EXPECT_FALSE(has(html, "\xe2\x80\xae"));
  const std::string ascii = detail::ascii_line(kHostile + "é\xff");
  for (const char c : ascii) EXPECT_TRUE(c >= 0x20 && c < 0x7f) << ascii;
  EXPECT_EQ(detail::plain_line("a\tb\xff"
                               "é"),
            "a b\xEF\xBF\xBDé");
  EXPECT_EQ(detail::plain_line("ééé", 3), "é…");
}

TEST(DisplayText, WritesNumbersAsPeopleReadThem) {
  EXPECT_EQ(detail::number_text(0.41234), "0.4123");
  EXPECT_EQ(detail::number_text(-12'345.6), "-12,346");
  EXPECT_EQ(detail::number_text(5e-05), "5e-05");
  EXPECT_EQ(detail::number_text(kNoNumber), "nan");
  EXPECT_EQ(detail::grouped_text(-1'234'567), "-1,234,567");
  EXPECT_EQ(detail::grouped_text(-123), "-123");
  EXPECT_EQ(detail::scaled_text(109'483'778), "109M");
  EXPECT_EQ(detail::duration_text(0.123), "0.12 s");
  EXPECT_EQ(detail::duration_text(185), "3 min 05 s");
  EXPECT_EQ(detail::duration_text(7'500), "2 h 05 min");
  EXPECT_EQ(detail::time_text(1'795'592'000.5), "2026-11-25 07:33:20 UTC");
  EXPECT_EQ(detail::time_text(-1), "");
}

TEST(ReportPage, ShowsWhatARunSays) {
  const std::string page = report_page(a_whole_run(), "my run");
  for (const char* part :
       {"<title>my run</title>", "<h1>Net</h1>", "finished", "<h3>Loss</h3>", "eval_accuracy",
        "Learning rate", "Gradient norm", "Throughput", "Step time", "Memory", "Progress",
        "Best eval_loss", "at step 50", "checkpoint-100", "★ best"})
    EXPECT_TRUE(has(page, part)) << part;
  EXPECT_EQ(count(page, "<figure"), 8U);
  EXPECT_EQ(count(page, "★ best"), 1U);
}

TEST(ReportPage, IsEqualForEqualHistories) {
  EXPECT_EQ(report_page(a_whole_run(), "a"), report_page(a_whole_run(), "a"));
  RunHistory other = a_whole_run();
  other.logs.back().loss = 0.5;
  EXPECT_NE(report_page(other, "a"), report_page(a_whole_run(), "a"));
}

TEST(ReportPage, EscapesEverythingThatComesFromTheLog) {
  RunHistory history;
  RunBegin begin = a_begin();
  begin.model = begin.strategy = begin.precision = begin.device = kHostile;
  begin.resumed_from = kHostile;
  begin.arguments = Node::map({{kHostile, 0, Node::map({{kHostile, 0, Node::string(kHostile)}})}});
  begin.argument_defaults = Node::map({{kHostile, 0, Node::string(kHostile)}});
  history.add(begin);
  RunLogged log = a_log(1);
  log.others = {{kHostile, 1}};
  history.add(log);
  history.add(RunEvaluated{.step = 1, .metrics = {{kHostile, 1}, {kHostile + "loss", 2}}});
  history.add(RunSaved{.step = 1, .folder = kHostile, .best = true});
  history.add(RunNote{.step = 1, .text = kHostile, .level = kHostile});
  history.add(RunEnd{.step = 1, .reason = kHostile, .metrics = {{kHostile, 1}}});
  const std::string page = report_page(history, kHostile);
  EXPECT_EQ(count(page, "<script>"), 1U);
  EXPECT_EQ(count(page, "</script>"), 1U);
  EXPECT_EQ(count(page, "<img"), 0U);
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_GT(count(page, "&lt;img src=x"), 10U);
}

TEST(ReportPage, LeavesAGapWhereALossIsNoNumber) {
  RunHistory history;
  for (int step = 0; step <= 8; ++step) {
    RunLogged log{.step = step, .loss = 1.0 * step};
    if (step == 4) log.loss = kNoNumber;
    history.add(log);
  }
  const std::string page = report_page(history, "a");
  EXPECT_TRUE(has(page, "class=\"gap\" d=\"M500.0 0V24\""));
  EXPECT_TRUE(has(page, "1×"));
  EXPECT_TRUE(has(page, "&quot;nan&quot;"));
  const auto line = page.find("class=\"line s1\" d=\"") + 19;
  EXPECT_EQ(count(page.substr(line, page.find('"', line) - line), "M"), 2U);
}

TEST(ReportPage, ShowsRunsThatSayLittle) {
  EXPECT_TRUE(has(report_page({}, "a"), "Nothing was logged yet"));
  RunHistory one;
  one.add(RunLogged{.step = 0, .loss = kNoNumber});
  EXPECT_TRUE(has(report_page(one, "a"), "<h3>Loss</h3>"));
  RunHistory single;
  single.add(a_log(7));
  EXPECT_TRUE(has(report_page(single, "a"), "Step time"));
}

TEST(ReportPage, PutsChangedArgumentsFirst) {
  RunHistory history;
  RunBegin begin = a_begin();
  begin.arguments = Node::map({{"adam_beta1", 0, Node::real(0.9)},
                               {"num_train_epochs", 0, Node::real(3)},
                               {"seed", 0, Node::integer(7)}});
  begin.argument_defaults = Node::map({{"adam_beta1", 0, Node::real(0.9)},
                                       {"num_train_epochs", 0, Node::integer(3)},
                                       {"seed", 0, Node::integer(42)}});
  history.add(begin);
  const std::string page = report_page(history, "a");
  EXPECT_LT(page.find("<td>seed</td><td>7</td><td>42</td>"), page.find("<td>adam_beta1</td>"));
  EXPECT_EQ(count(page, "<tr class=\"chosen\">"), 1U);  // 3 and 3.0 are alike.
}

TEST(ReportPage, OfAHundredThousandLogsIsSmallAndSoonMade) {
  RunHistory history;
  history.add(a_begin());
  for (int step = 1; step <= 100'000; ++step) {
    RunLogged log = a_log(step);
    log.others = {{"a", std::sin(step)}, {"b", std::cos(step)}};
    history.add(log);
    if (step % 100 == 0)
      history.add(
          RunEvaluated{.step = step, .metrics = {{"eval_a", 1.0 * step}, {"eval_loss", 1}}});
    if (step % 100 == 0) history.add(RunSaved{.step = step, .folder = "checkpoint"});
    if (step % 10 == 0) history.add(RunNote{.step = step, .text = std::string(5'000, 'x')});
  }
  const auto start = std::chrono::steady_clock::now();
  const std::string page = report_page(history, "a");
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  EXPECT_LT(page.size(), 2'000'000U);
  EXPECT_LT(time.count(), 5);
}

}  // namespace
}  // namespace accelerate
