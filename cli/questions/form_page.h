// A question on a screen, as lines of text.
#pragma once

#include <string>
#include <vector>

#include "accelerate/report/terminal_screen.h"
#include "cli/questions/conversation.h"

namespace accelerate::cli {

/// What the screen shows while a question is open.
struct FormState {
  std::vector<std::string> notes = {};
  std::size_t selected = 0;  ///< Of choices, which of a yes or no are these two.
  std::string digits = {};   ///< Typed in a menu: the place of a choice, as far as it goes.
  std::string typed = {};    ///< Of a text.
  std::string message = {};  ///< What is wrong with it.
  bool shows_help = false;
};

/// What can be chosen: the choices of a menu, yes and no, nothing of a text.
[[nodiscard]] std::vector<std::string> choices_of(const Question& question);

/// At most size.rows lines of at most size.columns: earlier answers, notes, the question, its
/// choices around the selected one or what is typed, what is wrong, help, and the keys. Where there
/// is no room earlier answers go first, then notes, help and choices but the selected one.
[[nodiscard]] std::vector<std::string> form_page(const Question& question, const FormState& state,
                                                 const std::vector<Answered>& before,
                                                 TerminalSize size);

}  // namespace accelerate::cli
