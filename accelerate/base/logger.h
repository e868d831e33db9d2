// Logging that knows about ranks, in the spirit of `accelerate.logging.get_logger`: a message goes
// out once, from the main process, unless it is asked for from every rank.
//
//   const Logger log = get_logger("accelerate.launch");
//   log.info("two GPUs found");
//   log.warning("batch dropped", {.main_process_only = false});
//   log.info("ready", {.in_order = true});                      // [collective]
//
// Threads: everything here may be called from any thread. Lines of threads and processes do not
// mix: a line is one write(2).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate {

enum class LogLevel { debug, info, warning, error, critical };

/// "DEBUG", "INFO", "WARNING", "ERROR" or "CRITICAL".
[[nodiscard]] std::string_view log_level_name(LogLevel level);

/// Reads the name of a level, in any case. Python's other names WARN and FATAL count too. Returns
/// nullopt for any other text.
[[nodiscard]] std::optional<LogLevel> parse_log_level(std::string_view name);

struct LogOptions {
  /// Only rank 0 logs. Before state/ has said which rank this is, RANK says so, and errors come
  /// from every rank (upstream throws there; a message about a failing start is worth more than
  /// the rule).
  bool main_process_only = true;
  /// [collective] Every rank logs, in the order of ranks, with a barrier after each;
  /// main_process_only is ignored then. All ranks must call with the same level set.
  bool in_order = false;
};

/// One message on its way to the sink.
struct LogRecord {
  LogLevel level;
  std::string_view name;  ///< The logger's name.
  std::string_view text;  ///< With "[RANK r] " in front where several ranks may log it.
};

/// A named source of messages, which drops messages below its level. Cheap to make and copy.
class Logger {
 public:
  Logger(std::string name, LogLevel level) : name_(std::move(name)), level_(level) {}

  void log(LogLevel level, std::string_view text, LogOptions options = {}) const;
  void debug(std::string_view text, LogOptions options = {}) const;
  void info(std::string_view text, LogOptions options = {}) const;
  void warning(std::string_view text, LogOptions options = {}) const;
  void error(std::string_view text, LogOptions options = {}) const;
  void critical(std::string_view text, LogOptions options = {}) const;
  /// Warns once on each rank, however often it is called with the same text.
  /// Cost: remembers every text until set_log_sink() is called, so leave changing numbers out of
  /// it.
  void warning_once(std::string_view text, LogOptions options = {}) const;

  /// Whether a message of this level goes through: ask before building a costly text.
  [[nodiscard]] bool enabled(LogLevel level) const { return level >= this->level(); }
  [[nodiscard]] LogLevel level() const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  friend Logger get_logger(std::string name, std::optional<LogLevel> level);

  std::string name_;
  LogLevel level_;
  bool follows_ = false;  // Whether set_log_level() overrides level_.
};

/// Sets the level of all loggers that were or will be made without a level. nullopt returns to the
/// level of ACCELERATE_LOG_LEVEL.
void set_log_level(std::optional<LogLevel> level);

/// Returns a logger called `name` with the given level, else the level of ACCELERATE_LOG_LEVEL,
/// else warning. Throws ConfigError when ACCELERATE_LOG_LEVEL is not a level, so do not call it in
/// the initialiser of a global.
[[nodiscard]] Logger get_logger(std::string name, std::optional<LogLevel> level = std::nullopt);

using LogSink = std::function<void(const LogRecord&)>;

/// Sends all further messages to `sink` and returns the previous sink. An empty `sink` restores the
/// default, which writes `format_log_line` to standard error. A sink is called from any thread,
/// perhaps from several at the same time.
LogSink set_log_sink(LogSink sink);

/// "2026-01-31 09:05:00 WARNING accelerate.launch: text\n" in local time. Control characters in the
/// text other than line ends and tabs are written as \xNN, so that no message can steer a terminal.
[[nodiscard]] std::string format_log_line(const LogRecord& record);

}  // namespace accelerate
