#include "accelerate/watch/run_log/run_log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/watch/run_log/run_event_json.h"

namespace accelerate {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kHeadBytes = 256;

std::string read_run_log_at(int fd, std::uint64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  const ssize_t got = ::pread(fd, bytes.data(), size, static_cast<off_t>(offset));
  bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return bytes;
}

}  // namespace

bool RunLogReader::is_replaced(int fd, const struct stat& status) const {
  return status.st_dev != device_ || status.st_ino != file_ ||
         static_cast<std::uint64_t>(status.st_size) < offset_bytes_ ||
         read_run_log_at(fd, 0, head_.size()) != head_;
}

void RunLogReader::start_over(const struct stat& status) {
  history_ = {};
  device_ = status.st_dev;
  file_ = status.st_ino;
  offset_bytes_ = 0;
  head_.clear();
  rest_.clear();
  skipping_ = false;
}

bool RunLogReader::poll() {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ENOENT) return false;
  struct stat status{};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) throw FileError("read", path_, errno);
  if (!S_ISREG(status.st_mode)) throw FileError("read", path_, "it is not a regular file");
  const bool replaced = is_replaced(file.get(), status);
  if (replaced) start_over(status);
  bool grew = false;
  while (read_piece(file.get()) > 0) grew = true;
  return replaced || grew;
}

std::size_t RunLogReader::read_piece(int fd) {
  const std::string piece = read_run_log_at(fd, offset_bytes_, kPieceBytes);
  if (head_.size() < kHeadBytes) head_ += piece.substr(0, kHeadBytes - head_.size());
  offset_bytes_ += piece.size();
  feed(piece);
  return piece.size();
}

void RunLogReader::feed(std::string_view bytes) {
  for (;;) {
    const auto end = bytes.find('\n');
    if (end == std::string_view::npos) break;
    if (rest_.empty()) {
      take_line(bytes.substr(0, end));
    } else {
      rest_ += bytes.substr(0, end);
      take_line(std::exchange(rest_, {}));
    }
    bytes.remove_prefix(end + 1);
  }
  if (!skipping_) rest_ += bytes;
  if (rest_.size() <= detail::kMostOfRunLine) return;
  skipping_ = true;
  rest_.clear();
}

void RunLogReader::take_line(std::string_view line) {
  const bool too_long = std::exchange(skipping_, false) || line.size() > detail::kMostOfRunLine;
  if (!too_long && trim(line).empty()) return;
  auto event = too_long ? std::nullopt : detail::parse_run_event(line);
  if (event) {
    history_.add(std::move(*event));
  } else {
    ++history_.ignored_lines;
  }
}

}  // namespace accelerate
