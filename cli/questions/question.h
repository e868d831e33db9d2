// A question of `accelerate config`, and who answers it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace accelerate::cli {

struct Question {
  enum class Kind { menu, yes_no, text };

  Kind kind = Kind::text;
  std::string text;                       ///< "How many machines will take part?"
  std::string help = {};                  ///< What "?" explains.
  std::vector<std::string> choices = {};  ///< The choices of a menu.
  /// What an empty answer means: a choice, "yes" or "no", or a text. If it is empty, a text must be
  /// typed.
  std::string fallback = {};
  bool may_be_empty = false;  ///< For a text: an empty answer is allowed.
  /// Throws ConfigError when a text is not an answer.
  std::function<void(const std::string& text)> check = {};

  /// Returns the answer that `typed` stands for. That is a choice, by its words in any case, or by
  /// its place from 1 if the choices are not numbers; "yes" or "no", also for y and n; or a text
  /// without the blanks around it. Throws ConfigError that says what is allowed, also for bytes
  /// that are not UTF-8.
  [[nodiscard]] std::string answer_of(const std::string& typed) const;
  /// Whether choices are numbers, so that a place could be mistaken for a choice.
  [[nodiscard]] bool has_numbers() const;
};

/// Something to say that needs no answer.
struct Note {
  std::string text;
  /// Whether native programs refuse what was chosen, while Python's take it.
  bool is_for_python = false;
};

/// Answers questions: a person, or what a person said before.
class Respondent {
 public:
  virtual ~Respondent() = default;
  /// Returns a choice, "yes" or "no", or a text that check() accepts.
  [[nodiscard]] virtual std::string answer(const Question& question) = 0;
  virtual void tell(const Note& note) = 0;
};

// How a question is shown.

/// Returns lines such as "1. multi-GPU", or the choices alone if they are numbers.
[[nodiscard]] std::vector<std::string> numbered_choices(const Question& question);

/// Returns "[no] ", with what an empty answer means, or ": ".
[[nodiscard]] std::string prompt_of(const Question& question);

}  // namespace accelerate::cli
