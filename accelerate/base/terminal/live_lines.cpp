#include "accelerate/base/terminal/live_lines.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/base/utf8.h"

namespace accelerate {
namespace {

struct Line {
  std::size_t id;
  int fd;
  std::string text;
};

// The cursor always rests at the end of the lowest line shown.
struct Area {
  std::mutex mutex;
  std::size_t next_id = 1;
  int fd = -1;                     // Where the lines are shown.
  std::vector<std::size_t> shown;  // The widths of the lines that are on the screen now.
  std::vector<Line> lines;

  void redraw(std::string_view above);
  std::vector<Line>::iterator find(std::size_t id) {
    return std::ranges::find(lines, id, &Line::id);
  }
};

// Never destroyed: a message may be logged while the program exits.
Area& area() {
  static auto* const one = new Area;
  return *one;
}

// Erases row by row: clearing "to the end of the screen" makes some terminals keep a copy in their
// history. If the terminal was made narrower since, it has wrapped the lines over several rows.
std::string erase(const std::vector<std::size_t>& shown, std::size_t columns) {
  if (shown.empty()) return "";
  std::size_t rows = 0;
  for (const std::size_t width : shown) rows += width == 0 ? 1 : (width + columns - 1) / columns;
  std::string text = "\r\x1b[K";
  for (std::size_t i = 1; i < rows; ++i) text += "\x1b[A\x1b[K";
  return text;
}

void Area::redraw(std::string_view above) {
  const std::size_t columns = terminal_columns(fd);
  std::string out = erase(std::exchange(shown, {}), columns).append(above);
  for (const Line& line : lines) {
    if (line.text.empty() || line.fd != fd) continue;
    if (!shown.empty()) out += '\n';
    // A line drawn before the terminal was made narrower is cut rather than wrapped.
    const std::string_view text = fit_columns(line.text, columns - 1);
    out += text;
    shown.push_back(display_width(text));
  }
  [[maybe_unused]] const int ignored = write_fully(fd, out);
}

}  // namespace

void print_above_live_lines(int fd, std::string_view text) {
  const std::lock_guard lock(area().mutex);
  if (area().shown.empty() || isatty(fd) == 0) {
    [[maybe_unused]] const int ignored = write_fully(fd, text);
    return;
  }
  area().redraw(text);
}

LiveLine::LiveLine(int fd) {
  const std::lock_guard lock(area().mutex);
  id_ = area().next_id++;
  if (area().shown.empty()) area().fd = fd;
  area().lines.push_back({id_, fd, ""});
}

LiveLine::~LiveLine() {
  finish(false);
}

void LiveLine::draw(std::string text) {
  const std::lock_guard lock(area().mutex);
  const auto line = area().find(id_);
  if (line == area().lines.end()) return;
  line->text = std::move(text);
  area().redraw("");
}

bool LiveLine::is_outermost() const {
  const std::lock_guard lock(area().mutex);
  return !area().lines.empty() && area().lines.front().id == id_;
}

void LiveLine::finish(bool keep) {
  const std::lock_guard lock(area().mutex);
  const auto line = area().find(id_);
  if (line == area().lines.end()) return;
  const std::string text = line->text;
  area().lines.erase(line);
  if (!text.empty()) area().redraw(keep ? text + "\n" : "");
}

}  // namespace accelerate
