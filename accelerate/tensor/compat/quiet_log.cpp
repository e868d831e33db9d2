#include "accelerate/tensor/compat/quiet_log.h"

#include <c10/util/Exception.h>
#include <c10/util/Logging.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <string>
#include <typeinfo>

#include "accelerate/base/logger.h"

namespace accelerate::compat {
namespace {

constexpr int kErrors = 2, kFatal = 3;  // GLOG's numbers of the levels.

struct LogScopes {
  std::mutex mutex;
  int open = 0;
  int level_before = 0;
  int least_level = 0;  // Of silence_store().
};

LogScopes& log_scopes() {
  static LogScopes instance;
  return instance;
}

bool user_has_decided() {
  static const bool decided = std::getenv("TORCH_CPP_LOG_LEVEL") != nullptr;
  return decided;
}

// Hands a thread's own warnings to our log. Through LibTorch's, its level would have to be lowered for
// a moment, in which the store's thread would log too.
class OwnWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    const auto& place = warning.source_location();
    const std::string file = std::filesystem::path(place.file).filename().string();
    get_logger("torch").warning(
        warning.msg() + " (" + file + ":" + std::to_string(place.line) + ")",
        {.main_process_only = false});
  }
};

}  // namespace

void silence_store() {
  if (user_has_decided()) return;
  static OwnWarnings own_warnings;
  LogScopes& scopes = log_scopes();
  {
    const std::lock_guard lock(scopes.mutex);
    scopes.least_level = kErrors;
    FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kErrors);
  }
  // A handler of the user's stays.
  const auto& present = *c10::WarningUtils::get_warning_handler();
  if (typeid(present) == typeid(c10::WarningHandler)) {
    c10::WarningUtils::set_warning_handler(&own_warnings);
  }
}

QuietLog::QuietLog(Keeps keeps) {
  if (user_has_decided()) return;
  LogScopes& scopes = log_scopes();
  const std::lock_guard lock(scopes.mutex);
  if (scopes.open++ == 0) scopes.level_before = FLAGS_caffe2_log_level;
  const int level = keeps == Keeps::errors ? kErrors : kFatal;
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, level);
}

QuietLog::~QuietLog() {
  if (user_has_decided()) return;
  LogScopes& scopes = log_scopes();
  const std::lock_guard lock(scopes.mutex);
  if (--scopes.open == 0) {
    FLAGS_caffe2_log_level = std::max(scopes.level_before, scopes.least_level);
  }
}

}  // namespace accelerate::compat
