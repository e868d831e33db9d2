// Questions on a screen that are answered by keys.
#pragma once

#include <chrono>
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

/// Thrown when the user left, by Ctrl-C or a signal.
struct Left {
  int signal;
};

/// Arrows, digits, y and n choose; letters type a text; Enter takes the answer, "?" explains, "<"
/// goes back, Ctrl-C leaves. A text is checked at each key. At most one object at a time, because
/// it takes over the terminal.
class Form final : public FrontEnd {
 public:
  /// `in` and `out`: both are the terminal.
  Form(int in, int out) : out_(out), screen_(in, out) {}
  /// Throws Left, and ConfigError when the terminal is gone.
  std::optional<std::string> ask(const Question& question,
                                 const std::vector<Answered>& before) override;
  void tell(const Note& note) override { notes_.push_back(note.text); }

 private:
  enum class Key { none, up, down, enter, back, help, erase, clear, byte };
  struct Pressed {
    Key key = Key::none;
    char byte = 0;
  };
  enum class Outcome { open, answered, went_back };

  [[nodiscard]] Pressed read_key();
  [[nodiscard]] Pressed read_escape();
  [[nodiscard]] int read_byte(std::chrono::milliseconds timeout);
  Outcome press(const Question& question, FormState& state, Pressed pressed);

  int out_;
  std::chrono::steady_clock::time_point last_digit_ = {};
  TerminalScreen screen_;
  std::vector<std::string> notes_;
};

}  // namespace accelerate::cli
