// What a Trainer prints is text, and no command to a terminal.
#include <gtest/gtest.h>

#include <algorithm>

#include "accelerate/base/untrusted_text.h"
#include "accelerate/base/utf8.h"
#include "tests/support/support.h"
#include "tests/transformers/trainer/small_training.h"

namespace accelerate {
namespace {

TEST(Said, LeavesNothingToObeyInNamesFromOutside) {
  const testing::TemporaryFolder folder;
  auto args = testing::quiet_arguments(folder.path());
  args.eval_strategy = "epoch";
  auto options = testing::small_training(std::move(args));
  options.compute_metrics = [](const EvalPrediction&) -> LogValues {
    return {{"f1 of \x1b[2J\u202ename", 0.5}};
  };
  ::testing::internal::CaptureStdout();
  Trainer trainer(std::move(options));
  trainer.train();
  trainer.log_metrics("te\x1b]0;title\x07st", trainer.evaluate());
  const std::string said = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(said.find("f1 of ?[2J?name 0.5"), std::string::npos) << said;
  EXPECT_NE(said.find("te?]0;title?st metrics"), std::string::npos) << said;
  for (std::string_view rest = said; !rest.empty();) {
    const auto c = take_code_point(rest);
    ASSERT_TRUE(c && (*c == '\n' || !detail::is_obeyed_by_terminals(*c)));
  }
}

}  // namespace
}  // namespace accelerate
