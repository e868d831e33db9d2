#include "accelerate/tensor/compat/quiet_log.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace accelerate::compat {
namespace {

constexpr int kErrors = 2;  // GLOG's number of the level.

struct LogScopes {
  std::mutex mutex;
  int open = 0;
  int level_before = 0;
};

LogScopes& log_scopes() {
  static LogScopes instance;
  return instance;
}

bool user_has_decided() {
  static const bool decided = std::getenv("TORCH_CPP_LOG_LEVEL") != nullptr;
  return decided;
}

}  // namespace

QuietLog::QuietLog() {
  if (user_has_decided()) return;
  LogScopes& scopes = log_scopes();
  const std::lock_guard lock(scopes.mutex);
  if (scopes.open++ > 0) return;
  scopes.level_before = FLAGS_caffe2_log_level;
  FLAGS_caffe2_log_level = std::max(scopes.level_before, kErrors);
}

QuietLog::~QuietLog() {
  if (user_has_decided()) return;
  LogScopes& scopes = log_scopes();
  const std::lock_guard lock(scopes.mutex);
  if (--scopes.open == 0) FLAGS_caffe2_log_level = scopes.level_before;
}

}  // namespace accelerate::compat
