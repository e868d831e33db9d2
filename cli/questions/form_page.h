// A question on a screen, as lines of text.
#pragma once

#include <string>
#include <vector>

#include "accelerate/base/terminal/terminal_screen.h"
#include "cli/questions/conversation.h"

namespace accelerate::cli {

/// What the screen shows while a question is open.
struct FormState {
  std::vector<std::string> notes = {};
  std::size_t selected = 0;  ///< Index of a choice; of yes and no, too.
  std::string digits = {};   ///< Typed in a menu: the number of a choice, so far.
  std::string typed = {};    ///< A text as typed so far.
  std::string message = {};  ///< What is wrong with the text.
  bool shows_help = false;
};

/// Returns what can be chosen: the choices of a menu, yes and no, or nothing for a text.
[[nodiscard]] std::vector<std::string> choices_of(const Question& question);

/// Returns at most size.rows lines of at most size.columns columns: earlier answers, notes, the
/// question, its choices around the selected one or the typed text, what is wrong, help, and the
/// keys. If there is no room, earlier answers go first, then notes, help, and choices other than
/// the selected one.
[[nodiscard]] std::vector<std::string> form_page(const Question& question, const FormState& state,
                                                 const std::vector<Answered>& before,
                                                 TerminalSize size);

}  // namespace accelerate::cli
