// Questions as lines: for pipes, for scripts, and for terminals that cannot be drawn on.
#pragma once

#include <iosfwd>

#include "cli/questions/conversation.h"

namespace accelerate::cli {

/// Writes a question with its choices, numbered unless the choices are numbers, and reads a line.
/// The line is an answer, nothing for the usual answer, "<" to go back, or "?" for help. If it is
/// not an answer, says so and asks again.
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
