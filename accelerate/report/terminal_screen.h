// A terminal as a screen that a program draws on and that answers to keys.
#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"

namespace accelerate {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;

  bool operator==(const TerminalSize&) const = default;
};

/// Of the terminal `fd` now; 80 by 24 for what it does not say.
[[nodiscard]] TerminalSize terminal_size(int fd);

/// Takes the terminal over: another page, no cursor, keys without Enter. The destructor gives it
/// back as it was, with what it showed, and so does Ctrl-Z or SIGTSTP until the process goes on.
/// SIGWINCH, SIGINT, SIGTERM and SIGHUP are answers of wait() meanwhile.
///
/// Threads: made, used and destroyed by one thread; one screen a process.
class TerminalScreen {
 public:
  struct Answer {
    enum class Kind { none, key, resized, signal, closed } kind = Kind::none;
    int value = 0;  ///< The key's byte, or the signal's number.
  };

  /// `in` is where keys come from; it may be no terminal. `out` is a terminal.
  TerminalScreen(int in, int out);
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  /// Shows the lines, whose bytes hold no line ends, from the top; only those that changed are
  /// sent. Failures are ignored: there is nobody left to tell.
  void draw(const std::vector<std::string>& lines);
  /// Forgets what is shown: the next draw() sends everything.
  void redraw();
  /// Whether redraw() was called since the last draw().
  [[nodiscard]] bool is_stale() const { return whole_; }
  /// Waits for a key or a signal, at most so long. Kind closed: the terminal is gone.
  [[nodiscard]] Answer wait(std::chrono::milliseconds timeout);
  /// Whether a key waits to be read.
  [[nodiscard]] bool has_key() const;

 private:
  void enter();
  void leave();
  void suspend();
  [[nodiscard]] Answer read_signal();
  [[nodiscard]] Answer read_key();

  int in_;
  int out_;
  bool has_keys_ = true;  // Whether `in` can still say something.
  bool was_set_ = false;  // Whether before_ is to be restored.
  bool whole_ = true;
  termios before_{};
  sigset_t signals_before_{};
  Descriptor signals_;
  std::vector<std::string> shown_;
};

}  // namespace accelerate
