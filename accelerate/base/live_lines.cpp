#include "accelerate/base/live_lines.h"

#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "accelerate/base/descriptor.h"

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
  std::size_t shown = 0;  // Lines on the screen now.
  int fd = -1;            // Where they are shown.
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

std::string erase_shown(std::size_t shown) {
  if (shown == 0) return "";
  std::string text = "\r";
  if (shown > 1) text += "\x1b[" + std::to_string(shown - 1) + "A";
  return text + "\x1b[J";
}

void Area::redraw(std::string_view above) {
  std::string out = erase_shown(std::exchange(shown, 0)).append(above);
  for (const Line& line : lines) {
    if (line.text.empty() || line.fd != fd) continue;
    if (shown++ > 0) out += '\n';
    out += line.text;
  }
  [[maybe_unused]] const int ignored = write_fully(fd, out);
}

}  // namespace

void print_above_live_lines(int fd, std::string_view text) {
  const std::lock_guard lock(area().mutex);
  if (area().shown == 0 || isatty(fd) == 0) {
    [[maybe_unused]] const int ignored = write_fully(fd, text);
    return;
  }
  area().redraw(text);
}

LiveLine::LiveLine(int fd) {
  const std::lock_guard lock(area().mutex);
  id_ = area().next_id++;
  if (area().shown == 0) area().fd = fd;
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
