// Catches what is logged, in tests.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "accelerate/base/logger.h"

namespace accelerate::testing {

/// While alive, log messages come here as "LEVEL name: text" and go nowhere else. Thread-safe.
class LogCapture {
 public:
  LogCapture() {
    before_ = set_log_sink([this](const LogRecord& record) {
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::string(log_level_name(record.level)) + " " + std::string(record.name) +
                       ": " + std::string(record.text));
    });
  }
  ~LogCapture() { set_log_sink(before_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  [[nodiscard]] std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  LogSink before_;
};

}  // namespace accelerate::testing
