#include "accelerate/base/logger.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/terminal/live_lines.h"
#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/base/utf8.h"

namespace accelerate {
namespace {

constexpr LogLevel kDefaultLevel = LogLevel::warning;  // As Python's logging.
constexpr std::array<std::string_view, 5> kNames = {"DEBUG", "INFO", "WARNING", "ERROR",
                                                    "CRITICAL"};

void write_to_standard_error(const LogRecord& record) {
  print_above_live_lines(STDERR_FILENO, format_log_line(record));
}

struct SinkHolder {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink = std::make_shared<const LogSink>(write_to_standard_error);
};

// Never destroyed: a message may come from a destructor that runs at exit.
SinkHolder& sink_holder() {
  static auto* holder = new SinkHolder;
  return *holder;
}

// The sink runs outside the lock, so that a sink may itself log.
void send(const LogRecord& record) {
  std::shared_ptr<const LogSink> sink;
  {
    const std::lock_guard lock(sink_holder().mutex);
    sink = sink_holder().sink;
  }
  (*sink)(record);
}

constexpr int kNoLevel = -1;
std::atomic<int> level_set{kNoLevel};  // Written by set_log_level().

LogLevel level_from_environment() {
  const auto text = env("ACCELERATE_LOG_LEVEL");
  if (!text) return kDefaultLevel;
  if (const auto level = parse_log_level(*text)) return *level;
  throw ConfigError("the environment variable ACCELERATE_LOG_LEVEL is '" + *text +
                    "', which is not a log level: use one of debug, info, warning, error, "
                    "critical." +
                    did_you_mean(*text, {kNames.begin(), kNames.end()}));
}

std::string with_rank(std::string_view text, const ProcessIdentity& identity) {
  return "[RANK " + std::to_string(identity.rank) + "] " + std::string(text);
}

void log_in_order(const ProcessIdentity& identity, const LogRecord& record) {
  for (int rank = 0; rank < identity.world_size; ++rank) {
    if (rank == identity.rank) send(record);
    if (identity.barrier) identity.barrier();
  }
}

// Ranks may be threads of one process, so the rank is a part of the key.
struct SaidOnce {
  std::mutex mutex;
  std::set<std::tuple<int, std::string, std::string>> said;
};

SaidOnce& said_once() {
  static auto* once = new SaidOnce;
  return *once;
}

bool first_time(int rank, std::string_view name, std::string_view text) {
  const std::lock_guard lock(said_once().mutex);
  return said_once().said.emplace(rank, name, text).second;
}

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts)};
}

void append_printable(std::string& line, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  while (!text.empty()) {
    std::string_view rest = text;
    const auto c = take_code_point(rest);
    const std::string_view bytes = text.substr(0, text.size() - rest.size());
    text = rest;
    if (c && (*c == '\n' || *c == '\t' || !detail::is_obeyed_by_terminals(*c))) {
      line += bytes;
      continue;
    }
    for (const char one : bytes) {
      const auto byte = static_cast<unsigned char>(one);
      line += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
}

// Whether a message that is said once is this process's to say. Before state/ has said which rank
// it is, the launcher has. What may end a start is said by every rank, in case rank 0 is not there.
bool speaks_for_all(const ProcessIdentity& identity, LogLevel level) {
  if (identity.initialized || level >= LogLevel::error) return identity.is_main_process();
  return identity.is_main_process() && identity_from_environment().is_main_process();
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  return kNames.at(static_cast<std::size_t>(level));
}

std::optional<LogLevel> parse_log_level(std::string_view name) {
  const std::string word = lower(name);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (word == lower(kNames[i])) return static_cast<LogLevel>(i);
  }
  if (word == "warn") return LogLevel::warning;
  if (word == "fatal") return LogLevel::critical;
  return std::nullopt;
}

void Logger::log(LogLevel level, std::string_view text, LogOptions options) const {
  if (!enabled(level)) return;
  const ProcessIdentity& identity = process_identity();
  if (options.main_process_only && !options.in_order) {
    if (speaks_for_all(identity, level)) send({level, name_, text});
    return;
  }
  const std::string line = identity.world_size > 1 ? with_rank(text, identity) : std::string(text);
  if (options.in_order) {
    log_in_order(identity, {level, name_, line});
  } else {
    send({level, name_, line});
  }
}

void Logger::debug(std::string_view text, LogOptions options) const {
  log(LogLevel::debug, text, options);
}

void Logger::info(std::string_view text, LogOptions options) const {
  log(LogLevel::info, text, options);
}

void Logger::warning(std::string_view text, LogOptions options) const {
  log(LogLevel::warning, text, options);
}

void Logger::error(std::string_view text, LogOptions options) const {
  log(LogLevel::error, text, options);
}

void Logger::critical(std::string_view text, LogOptions options) const {
  log(LogLevel::critical, text, options);
}

void Logger::warning_once(std::string_view text, LogOptions options) const {
  if (first_time(process_identity().rank, name_, text)) warning(text, options);
}

Logger get_logger(std::string name, std::optional<LogLevel> level) {
  Logger logger(std::move(name), level ? *level : level_from_environment());
  logger.follows_ = !level;
  return logger;
}

LogLevel Logger::level() const {
  const int set = follows_ ? level_set.load(std::memory_order_relaxed) : kNoLevel;
  return set == kNoLevel ? level_ : static_cast<LogLevel>(set);
}

void set_log_level(std::optional<LogLevel> level) {
  level_set = level ? static_cast<int>(*level) : kNoLevel;
}

LogSink set_log_sink(LogSink sink) {
  if (!sink) sink = write_to_standard_error;
  {
    const std::lock_guard lock(said_once().mutex);
    said_once().said.clear();  // The next sink has heard nothing yet.
  }
  auto next = std::make_shared<const LogSink>(std::move(sink));
  const std::lock_guard lock(sink_holder().mutex);
  sink_holder().sink.swap(next);
  return *next;
}

std::string format_log_line(const LogRecord& record) {
  std::string line = time_stamp();
  line.append(" ").append(log_level_name(record.level)).append(" ");
  append_printable(line, record.name);
  line += ": ";
  append_printable(line, record.text);
  return line += '\n';
}

}  // namespace accelerate
