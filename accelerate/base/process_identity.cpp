#include "accelerate/base/process_identity.h"

#include <atomic>
#include <memory>
#include <utility>

namespace accelerate {
namespace {

thread_local const ProcessIdentity* thread_identity = nullptr;

// Replaced as a whole and never freed: a logger on another thread may hold a reference.
std::atomic<const ProcessIdentity*>& global_identity() {
  static const ProcessIdentity alone;
  static std::atomic<const ProcessIdentity*> current{&alone};
  return current;
}

}  // namespace

const ProcessIdentity& process_identity() {
  return thread_identity != nullptr ? *thread_identity : *global_identity().load();
}

void set_process_identity(ProcessIdentity identity) {
  global_identity().store(std::make_unique<ProcessIdentity>(std::move(identity)).release());
}

ScopedProcessIdentity::ScopedProcessIdentity(ProcessIdentity identity)
    : identity_(std::move(identity)), outer_(thread_identity) {
  thread_identity = &identity_;
}

ScopedProcessIdentity::~ScopedProcessIdentity() {
  thread_identity = outer_;
}

}  // namespace accelerate
