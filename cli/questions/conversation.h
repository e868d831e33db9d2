// An interview with a person who may take answers back.
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
  /// Returns an answer, as answer_of() gives it, or nullopt to go back to the previous question.
  /// `before`: the answers so far.
  [[nodiscard]] virtual std::optional<std::string> ask(const Question& question,
                                                       const std::vector<Answered>& before) = 0;
  virtual void tell(const Note& note) = 0;
};

/// Asks until all questions are answered. Going back repeats the previous question. The questions
/// after it may then be different; questions that come again offer their earlier answers.
[[nodiscard]] ConfigDraft converse(FrontEnd& front_end);

}  // namespace accelerate::cli
