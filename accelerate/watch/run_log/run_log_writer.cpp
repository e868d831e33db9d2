#include "accelerate/watch/run_log/run_log_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

#include "accelerate/base/file_system.h"
#include "accelerate/base/utf8.h"
#include "accelerate/watch/run_log/run_event_json.h"

namespace accelerate {
namespace {

// Returns the current time, rounded to the millisecond.
double unix_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::round(std::chrono::duration<double, std::milli>(now).count()) / 1000;
}

Descriptor open_run_log(const std::filesystem::path& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  struct stat status{};
  if (!file.valid() || ::fstat(file.get(), &status) != 0) throw FileError("open", path, errno);
  if (!S_ISREG(status.st_mode)) throw FileError("open", path, "it is not a regular file");
  return file;
}

bool ends_within_line(const Descriptor& file) {
  struct stat status{};
  char last = '\n';
  if (::fstat(file.get(), &status) != 0 || status.st_size == 0) return false;
  return ::pread(file.get(), &last, 1, status.st_size - 1) == 1 && last != '\n';
}

}  // namespace

RunLogWriter::RunLogWriter(std::filesystem::path path)
    : path_(std::move(path)), file_(open_run_log(path_)), cut_(ends_within_line(file_)) {}

void RunLogWriter::write_line(const std::string& line) {
  if (line.size() > detail::kMostOfRunLine)
    throw UsageError("an event of " + path_.string() + " takes " + std::to_string(line.size()) +
                     " bytes, and a line has at most " + std::to_string(detail::kMostOfRunLine) +
                     ": leave long arguments out");
  const int error = write_fully(file_.get(), cut_ ? "\n" + line : line);
  cut_ = error != 0;
  if (error != 0) throw FileError("write", path_, error);
}

template <typename Event>
void RunLogWriter::append(Event event) {
  if (!event.time) event.time = unix_seconds();
  write_line(detail::run_event_line(std::move(event)));
}

void RunLogWriter::begin(RunBegin event) {
  append(std::move(event));
}

void RunLogWriter::log(RunLogged event) {
  append(std::move(event));
}

void RunLogWriter::evaluate(RunEvaluated event) {
  append(std::move(event));
}

void RunLogWriter::save(RunSaved event) {
  append(std::move(event));
}

void RunLogWriter::note(RunNote event) {
  constexpr std::size_t kMostOfText = std::size_t{64} << 10;
  event.text = fit_bytes(event.text, kMostOfText);
  append(std::move(event));
}

void RunLogWriter::end(RunEnd event) {
  append(std::move(event));
}

}  // namespace accelerate
