// Questions as lines: for pipes, for terminals that cannot be drawn on, for scripts.
#pragma once

#include <iosfwd>

#include "cli/questions/conversation.h"

namespace accelerate::cli {

/// Writes a question with its choices, numbered unless they are numbers, and reads a line: an
/// answer, nothing for the usual one, "<" to go back, "?" for help. What is no answer is said, and
/// the question asked again.
class Lines final : public FrontEnd {
 public:
  Lines(std::istream& in, std::ostream& out) : in_(in), out_(out) {}
  /// Throws ConfigError at the end of the input.
  std::optional<std::string> ask(const Question& question,
                                 const std::vector<Answered>& before) override;
  void tell(const Note& note) override;

 private:
  void show(const Question& question);

  std::istream& in_;
  std::ostream& out_;
};

}  // namespace accelerate::cli
