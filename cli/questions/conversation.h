// An interview with somebody who may take answers back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/questions/interview.h"

namespace accelerate::cli {

/// A question that was answered.
struct Answered {
  std::string question, answer;
};

/// Where questions are asked: a screen, or lines.
class FrontEnd {
 public:
  virtual ~FrontEnd() = default;
  /// An answer of answer_of(), or nullopt to go back to the question before. `before`: what was
  /// answered so far.
  [[nodiscard]] virtual std::optional<std::string> ask(const Question& question,
                                                       const std::vector<Answered>& before) = 0;
  virtual void tell(const Note& note) = 0;
};

/// Asks until all is answered. Going back asks again from the answer before: later questions may
/// then be others, and those that come again offer what was answered to them.
[[nodiscard]] ConfigDraft converse(FrontEnd& front_end);

}  // namespace accelerate::cli
