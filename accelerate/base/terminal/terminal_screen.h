// A terminal: what it can show, and a screen on which a program draws and reads keys.
#pragma once

#include <signal.h>
#include <termios.h>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "accelerate/base/descriptor.h"

namespace accelerate {

/// Whether `fd` is a terminal on which lines can be redrawn (not where TERM=dumb).
[[nodiscard]] bool is_redrawable(int fd);

/// Columns of the terminal `fd` now; 80 when it does not say.
[[nodiscard]] std::size_t terminal_columns(int fd);

/// Whether the locale of the environment (LC_ALL, LC_CTYPE, LANG) says UTF-8.
[[nodiscard]] bool locale_is_utf8();

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;

  bool operator==(const TerminalSize&) const = default;
};

/// Returns the current size of the terminal `fd`. A dimension that the terminal does not report is
/// 80 columns or 24 rows.
[[nodiscard]] TerminalSize terminal_size(int fd);

/// Takes over the terminal: alternate screen, no cursor, keys without Enter. The destructor
/// restores the terminal and its content. Ctrl-Z and SIGTSTP restore it too, until the process
/// continues. Meanwhile wait() returns SIGWINCH, SIGINT, SIGTERM and SIGHUP as answers.
///
/// Threads: construct, use and destroy it in one thread; one screen a process.
class TerminalScreen {
 public:
  struct Answer {
    enum class Kind { none, key, resized, signal, closed } kind = Kind::none;
    int value = 0;  ///< The key's byte, or the signal's number.
  };

  /// `in` supplies the keys and need not be a terminal. `out` is a terminal.
  TerminalScreen(int in, int out);
  ~TerminalScreen();
  TerminalScreen(const TerminalScreen&) = delete;
  TerminalScreen& operator=(const TerminalScreen&) = delete;

  /// Shows `lines` from the top and sends only the lines that changed. The lines contain no line
  /// ends. Failures are ignored, because there is no way left to report them.
  void draw(const std::vector<std::string>& lines);
  /// Forgets what is shown: the next draw() sends everything.
  void redraw();
  /// Whether redraw() was called since the last draw().
  [[nodiscard]] bool is_stale() const { return whole_; }
  /// Waits for a key or a signal, at most `timeout`. Kind closed: the terminal is gone.
  [[nodiscard]] Answer wait(std::chrono::milliseconds timeout);
  /// Whether a key is waiting to be read.
  [[nodiscard]] bool has_key() const;

 private:
  void enter();
  void leave();
  void suspend();
  [[nodiscard]] Answer read_signal();
  [[nodiscard]] Answer read_key();

  int in_;
  int out_;
  bool has_keys_ = true;  // Whether `in` can still supply keys.
  bool was_set_ = false;  // Whether before_ has to be restored.
  bool whole_ = true;
  termios before_{};
  sigset_t signals_before_{};
  Descriptor signals_;
  std::vector<std::string> shown_;
};

}  // namespace accelerate
