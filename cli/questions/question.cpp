#include "cli/questions/question.h"

#include <algorithm>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"

namespace accelerate::cli {
namespace {

std::string chosen(const Question& question, const std::string& typed) {
  for (const std::string& choice : question.choices)
    if (lower(choice) == lower(typed)) return choice;
  const auto place = parse_int(typed);
  const auto count = static_cast<std::int64_t>(question.choices.size());
  if (!question.has_numbers() && place && *place >= 1 && *place <= count)
    return question.choices[static_cast<std::size_t>(*place - 1)];
  throw ConfigError(
      "'" + typed + "' is not one of the answers: " + join(question.choices, ", ") +
      (question.has_numbers() ? "." : "; or their number, 1 to " + std::to_string(count) + ".") +
      did_you_mean(typed, question.choices));
}

std::string yes_or_no(const std::string& typed) {
  const std::string word = lower(typed);
  if (word == "y" || word == "yes") return "yes";
  if (word == "n" || word == "no") return "no";
  throw ConfigError("'" + typed + "' is neither yes nor no.");
}

}  // namespace

bool Question::has_numbers() const {
  return std::ranges::any_of(choices,
                             [](const auto& choice) { return parse_int(choice).has_value(); });
}

std::string Question::answer_of(const std::string& typed) const {
  const std::string text_typed(trim(typed));
  if (text_typed.empty() && (!fallback.empty() || may_be_empty)) return fallback;
  if (!is_utf8(text_typed)) throw ConfigError("the answer is not UTF-8 text.");
  if (kind == Kind::menu) return chosen(*this, text_typed);
  if (kind == Kind::yes_no) return yes_or_no(text_typed);
  if (text_typed.empty())
    throw ConfigError("this question has no usual answer: type one, or < to go back.");
  if (check) check(text_typed);
  return text_typed;
}

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
