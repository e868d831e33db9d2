#include "accelerate/base/terminal/progress_bar.h"

#include <gtest/gtest.h>

#include "accelerate/base/utf8.h"

namespace accelerate::detail {
namespace {

using std::chrono::seconds;

ProgressView halfway() {
  return {.description = "train",
          .done = 420,
          .total = 1000,
          .elapsed = seconds(10),
          .units_per_second = 41.9};
}

TEST(ProgressFormat, ShowsPercentBarCountTimesAndRate) {
  EXPECT_EQ(format_progress_bar(halfway(), 67, true),
            "train:  42%|████████▍           | 420/1000 [00:10<00:13, 41.90it/s]");
  EXPECT_EQ(format_progress_bar(halfway(), 67, false),
            "train:  42%|########------------| 420/1000 [00:10<00:13, 41.90it/s]");
}

TEST(ProgressFormat, ALineForALogHasNoBar) {
  ProgressView view = halfway();
  view.postfix = "loss=0.5";
  EXPECT_EQ(format_progress_line(view), "train: 420/1000 (42%) [00:10<00:13, 41.90it/s, loss=0.5]");
}

TEST(ProgressFormat, AnUnknownTotalHasNoPercentBarOrRemainder) {
  ProgressView view = halfway();
  view.total.reset();
  view.units_per_second = 0.25;
  EXPECT_EQ(format_progress_bar(view, 80, true), "train: 420it [00:10, 4.00s/it]");
  EXPECT_EQ(format_progress_line(view), "train: 420it [00:10, 4.00s/it]");
}

// From 1000 on tqdm.format_sizeof's words; below that whole units, for there are no parts of bytes.
TEST(ProgressFormat, ScalesUnitsByPowersOfAThousand) {
  const std::pair<std::uint64_t, const char*> cases[] = {{0, "0B"},
                                                         {22, "22B"},
                                                         {999, "999B"},
                                                         {1000, "1.00kB"},
                                                         {1234, "1.23kB"},
                                                         {9994, "9.99kB"},
                                                         {9996, "10.0kB"},
                                                         {99940, "99.9kB"},
                                                         {99960, "100kB"},
                                                         {999400, "999kB"},
                                                         {999600, "1.00MB"},
                                                         {1500000000, "1.50GB"},
                                                         {4200000000000, "4.20TB"}};
  for (const auto& [done, text] : cases) {
    const ProgressView view{.done = done, .unit = "B", .unit_scale = true};
    EXPECT_EQ(format_progress_line(view), std::string(text) + " [00:00, ?B/s]");
  }
}

TEST(ProgressFormat, NeverExceedsTheColumns) {
  ProgressView view = halfway();
  view.description = "訓練 é";
  view.postfix = "loss=0.123, accuracy=0.98";
  for (std::size_t columns = 0; columns < 150; ++columns) {
    EXPECT_LE(display_width(format_progress_bar(view, columns, true)), columns);
    EXPECT_TRUE(is_utf8(format_progress_bar(view, columns, true))) << columns;
  }
}

TEST(ProgressFormat, ALongDescriptionIsCutBeforeTheNumbers) {
  ProgressView view = halfway();
  view.description = "fine-tuning MiniLM on sayings of eight topics";
  EXPECT_EQ(format_progress_bar(view, 40, true), "fine-tuning MiniL…:  42% 420/1000 [00:10");
  view.total.reset();
  EXPECT_EQ(format_progress_bar(view, 40, false), "fine-tuning MiniL.: 420it [00:10, 41.90i");
}

TEST(ProgressFormat, OneHundredPercentIsOnlyWhenDone) {
  ProgressView view = {.done = 99'999, .total = 100'000, .units_per_second = 1e6};
  EXPECT_NE(format_progress_line(view).find("(99%)"), std::string::npos);
  view.done = 100'000;
  EXPECT_EQ(format_progress_line(view), "100000/100000 (100%) [00:00<00:00, 1000000it/s]");
  view.done = 100'001;
  EXPECT_NE(format_progress_bar(view, 80, true).find("100%"), std::string::npos);
}

TEST(ProgressFormat, NothingToDoAndNothingDoneAreNoDivisionByZero) {
  EXPECT_EQ(format_progress_line({.total = 0}), "0/0 (100%) [00:00<00:00, ?it/s]");
  EXPECT_EQ(format_progress_line({.total = 5}), "0/5 (0%) [00:00<?, ?it/s]");
}

TEST(ProgressFormat, IntervalsGrowHoursWhenNeeded) {
  EXPECT_EQ(format_interval(seconds(65)), "01:05");
  EXPECT_EQ(format_interval(seconds(3600)), "1:00:00");
  EXPECT_EQ(format_interval(seconds(360'000)), "100:00:00");
  EXPECT_EQ(format_interval(seconds(-1)), "00:00");
}

TEST(ProgressFormat, NumbersHaveThreeDigits) {
  EXPECT_EQ(format_short(0.12345), "0.123");
  EXPECT_EQ(format_short(1e-5), "1e-05");
  EXPECT_EQ(format_short(41.9), "41.9");
}

}  // namespace
}  // namespace accelerate::detail
