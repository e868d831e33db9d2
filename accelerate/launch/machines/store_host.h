// The process that holds the store of a job, started by the launcher of machine 0.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>

#include "accelerate/base/descriptor.h"

namespace accelerate::detail {

class StoreHost {
 public:
  /// Serves `values` to what connects to `listener`; see StoreServer. Throws LaunchError if no
  /// process can be started. The calling process may have no other threads.
  StoreHost(Descriptor listener, std::map<std::string, std::string> values);
  /// Lets the process end once its clients have left, and waits for that: two seconds at most.
  ~StoreHost();
  StoreHost(const StoreHost&) = delete;
  StoreHost& operator=(const StoreHost&) = delete;

 private:
  Descriptor alive_;  // The process ends when this end of a pipe is closed, however that happens.
  pid_t pid_ = -1;
};

}  // namespace accelerate::detail
