#include "accelerate/base/terminal/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "accelerate/base/environment.h"
#include "accelerate/base/text.h"

namespace accelerate {

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
