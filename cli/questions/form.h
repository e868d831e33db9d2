// Questions on a screen, answered by keys.
#pragma once

#include <chrono>

#include "accelerate/report/terminal_screen.h"
#include "cli/questions/conversation.h"
#include "cli/questions/form_page.h"

namespace accelerate::cli {

/// The user left by Ctrl-C or a signal.
struct Left {
  int signal;
};

/// Arrows, digits, y and n choose, letters type in a text, Enter takes, "?" explains, "<" goes
/// back, Ctrl-C leaves. What is typed is checked at each key. One at a time, for it takes the
/// terminal over.
class Form final : public FrontEnd {
 public:
  /// Both are the terminal.
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
