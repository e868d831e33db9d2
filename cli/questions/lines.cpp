#include "cli/questions/lines.h"

#include <istream>
#include <ostream>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "cli/questions/question.h"

namespace accelerate::cli {

void Lines::show(const Question& question) {
  out_ << question.text << "\n";
  for (const std::string& choice : numbered_choices(question)) out_ << "  " << choice << "\n";
  out_ << prompt_of(question) << std::flush;
}

std::optional<std::string> Lines::ask(const Question& question, const std::vector<Answered>&) {
  for (;;) {
    show(question);
    std::string typed;
    if (!std::getline(in_, typed)) {
      out_ << "\n";
      throw ConfigError("the input ended before the question '" + question.text +
                        "' was answered; nothing was written");
    }
    const auto word = trim(typed);
    if (word == "<") return std::nullopt;
    if (word == "?") {
      out_ << question.help << "\n";
      continue;
    }
    try {
      return question.answer_of(typed);
    } catch (const ConfigError& error) {
      out_ << error.what() << "\n";
    }
  }
}

void Lines::tell(const Note& note) {
  out_ << "Note: " << note.text << "\n";
}

}  // namespace accelerate::cli
