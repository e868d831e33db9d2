#include "accelerate/base/terminal/terminal_screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <cerrno>

#include "accelerate/base/environment.h"
#include "accelerate/base/text.h"

namespace accelerate {
namespace {

constexpr std::string_view kEnterScreen = "\x1b[?1049h\x1b[?25l";
constexpr std::string_view kLeaveScreen = "\x1b[0m\x1b[?25h\x1b[?1049l";

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGTSTP}) ::sigaddset(&set, signal);
  return set;
}

// Returns settings that deliver keys one by one without an echo, Ctrl-C included.
termios with_single_keys(termios settings) {
  settings.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
  settings.c_cc[VMIN] = 1;
  settings.c_cc[VTIME] = 0;
  return settings;
}

}  // namespace

TerminalSize terminal_size(int fd) {
  winsize size{};
  TerminalSize known;
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) return known;
  if (size.ws_col > 0) known.columns = size.ws_col;
  if (size.ws_row > 0) known.rows = size.ws_row;
  return known;
}

TerminalScreen::TerminalScreen(int in, int out) : in_(in), out_(out) {
  const sigset_t signals = watched_signals();
  ::pthread_sigmask(SIG_BLOCK, &signals, &signals_before_);
  signals_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  enter();
}

TerminalScreen::~TerminalScreen() {
  leave();
  ::pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr);
}

void TerminalScreen::enter() {
  was_set_ = ::tcgetattr(in_, &before_) == 0;
  if (was_set_) {
    const termios single = with_single_keys(before_);
    ::tcsetattr(in_, TCSANOW, &single);
  }
  (void)write_fully(out_, kEnterScreen);
}

void TerminalScreen::leave() {
  (void)write_fully(out_, kLeaveScreen);
  if (was_set_) ::tcsetattr(in_, TCSANOW, &before_);
}

void TerminalScreen::suspend() {
  leave();
  // SIGTSTP and not SIGSTOP: the system ignores SIGTSTP where no shell could continue the process.
  sigset_t stop;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);  // The process stops here.
  ::pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  enter();
  redraw();
}

void TerminalScreen::draw(const std::vector<std::string>& lines) {
  std::string bytes = whole_ ? "\x1b[2J" : "";
  whole_ = false;
  for (std::size_t i = 0; i < std::max(lines.size(), shown_.size()); ++i) {
    const std::string line = i < lines.size() ? lines[i] : "";
    if (i < shown_.size() && shown_[i] == line) continue;
    bytes += "\x1b[" + std::to_string(i + 1) + ";1H\x1b[K" + line;
  }
  shown_ = lines;
  if (!bytes.empty()) (void)write_fully(out_, bytes);
}

void TerminalScreen::redraw() {
  shown_.clear();
  whole_ = true;
}

TerminalScreen::Answer TerminalScreen::wait(std::chrono::milliseconds timeout) {
  std::array<pollfd, 2> waits = {{{signals_.get(), POLLIN, 0}, {has_keys_ ? in_ : -1, POLLIN, 0}}};
  const int ready = ::poll(waits.data(), waits.size(), static_cast<int>(timeout.count()));
  if (ready <= 0) return {};
  if (waits[0].revents != 0) return read_signal();
  return read_key();
}

bool TerminalScreen::has_key() const {
  pollfd key = {has_keys_ ? in_ : -1, POLLIN, 0};
  return ::poll(&key, 1, 0) == 1 && (key.revents & POLLIN) != 0;
}

TerminalScreen::Answer TerminalScreen::read_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return {};
  const int signal = static_cast<int>(info.ssi_signo);
  if (signal == SIGTSTP) {
    suspend();
    return {Answer::Kind::resized, signal};
  }
  if (signal == SIGWINCH) return {Answer::Kind::resized, signal};
  return {Answer::Kind::signal, signal};
}

TerminalScreen::Answer TerminalScreen::read_key() {
  constexpr char kControlZ = 26;
  char key = 0;
  const ssize_t got = ::read(in_, &key, 1);
  if (got == 1 && key == kControlZ && was_set_) {
    suspend();
    return {Answer::Kind::resized, SIGTSTP};
  }
  if (got == 1) return {Answer::Kind::key, static_cast<unsigned char>(key)};
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return {};
  has_keys_ = false;
  return was_set_ ? Answer{Answer::Kind::closed} : Answer{};
}

bool is_redrawable(int fd) {
  return ::isatty(fd) != 0 && env("TERM") != "dumb";
}

std::size_t terminal_columns(int fd) {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  const bool known = ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

bool locale_is_utf8() {
  const std::string locale = lower(env_first({"LC_ALL", "LC_CTYPE", "LANG"}).value_or("C"));
  return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
}

}  // namespace accelerate
