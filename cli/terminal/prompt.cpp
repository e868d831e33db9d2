#include "cli/terminal/prompt.h"

#include <termios.h>
#include <unistd.h>

#include <iostream>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"

namespace accelerate::cli {
namespace {

// Hides what is typed for as long as it lives.
class HiddenTyping {
 public:
  HiddenTyping() {
    is_changed_ = ::tcgetattr(STDIN_FILENO, &before_) == 0;
    termios hidden = before_;
    hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    if (is_changed_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  }
  ~HiddenTyping() {
    if (is_changed_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
  }
  HiddenTyping(const HiddenTyping&) = delete;
  HiddenTyping& operator=(const HiddenTyping&) = delete;

 private:
  termios before_{};
  bool is_changed_ = false;
};

}  // namespace

std::string read_secret(const std::string& question) {
  std::string line;
  if (::isatty(STDIN_FILENO) == 1) {
    const HiddenTyping hidden;
    std::cerr << question << std::flush;
    std::getline(std::cin, line);
    std::cerr << "\n";
  } else {
    std::getline(std::cin, line);
  }
  if (trim(line).empty())
    throw ConfigError("no token was given. Type it, pipe it in, or pass it by --token");
  return line;
}

bool is_agreed(const std::string& question) {
  if (::isatty(STDIN_FILENO) != 1)
    throw ConfigError("nobody can be asked, since standard input is not a terminal: pass --yes");
  std::cerr << question << " [y/N] " << std::flush;
  std::string line;
  std::getline(std::cin, line);
  const std::string answer = lower(trim(line));
  return answer == "y" || answer == "yes";
}

}  // namespace accelerate::cli
