// Lines at the bottom of a terminal, one for each progress bar, which are redrawn in place. Text
// that is printed meanwhile passes above them. One area a process, shared by all threads.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace accelerate {

/// Writes `text` (whole lines) to `fd`. Where live lines are shown and `fd` is a terminal they are
/// taken away first and drawn again below the text, all in one write. Failures are ignored: there
/// is nowhere left to report them.
void print_above_live_lines(int fd, std::string_view text);

/// One line of the area, on the terminal `fd`; the newest is the lowest. It appears at its first
/// draw.
class LiveLine {
 public:
  explicit LiveLine(int fd);
  /// Takes the line away.
  ~LiveLine();
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  /// Shows `text`, at most one terminal line wide, without a line end.
  void draw(std::string text);
  /// Whether this is the first line of the area.
  [[nodiscard]] bool is_outermost() const;
  /// Takes the line away and, if `keep`, leaves its last text above the rest of the area.
  void finish(bool keep);

 private:
  std::size_t id_;
};

}  // namespace accelerate
