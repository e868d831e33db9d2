#include "cli/questions/question.h"

namespace accelerate::cli {

std::vector<std::string> numbered_choices(const Question& question) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < question.choices.size(); ++i) {
    const std::string place = question.has_numbers() ? "" : std::to_string(i + 1) + ". ";
    lines.push_back(place + question.choices[i]);
  }
  return lines;
}

std::string prompt_of(const Question& question) {
  if (question.kind == Question::Kind::yes_no)
    return question.fallback == "yes" ? "[YES/no] " : "[yes/NO] ";
  return question.fallback.empty() ? ": " : "[" + question.fallback + "] ";
}

}  // namespace accelerate::cli
