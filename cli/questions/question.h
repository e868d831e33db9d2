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
  std::vector<std::string> choices = {};  ///< Of a menu.
  /// What an empty answer means: a choice, "yes" or "no", or a text. A text without one must be
  /// typed.
  std::string fallback = {};
  bool may_be_empty = false;  ///< Of a text: nothing is an answer too.
  /// Throws ConfigError when a text is no answer.
  std::function<void(const std::string& text)> check = {};

  /// The answer that `typed` stands for: a choice by its words in any case, or by its place from 1
  /// where the choices are no numbers; "yes" or "no", also y and n; a text without the blanks
  /// around it. Throws ConfigError, with what is allowed, also for bytes that are no UTF-8.
  [[nodiscard]] std::string answer_of(const std::string& typed) const;
  /// Whether choices are numbers, so that a place would be mistaken for one.
  [[nodiscard]] bool has_numbers() const;
};

/// Something to say that needs no answer.
struct Note {
  std::string text;
  /// Native programs refuse what was chosen, and Python's take it.
  bool is_for_python = false;
};

/// Answers questions: a person, or what a person said before.
class Respondent {
 public:
  virtual ~Respondent() = default;
  /// A choice, "yes" or "no", or a text that check() lets pass.
  [[nodiscard]] virtual std::string answer(const Question& question) = 0;
  virtual void tell(const Note& note) = 0;
};

}  // namespace accelerate::cli
