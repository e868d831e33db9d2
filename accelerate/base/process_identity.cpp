#include "accelerate/base/process_identity.h"

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/text.h"

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

ProcessIdentity identity_from_environment() {
  const auto number = [](const std::vector<const char*>& names, int usual) {
    const auto value = parse_int(env_first(names).value_or(""));
    return value ? static_cast<int>(*value) : usual;
  };
  ProcessIdentity identity;
  identity.rank = number({"RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"}, 0);
  identity.world_size =
      number({"WORLD_SIZE", "PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"}, 1);
  return identity;
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

namespace accelerate::detail {
namespace {

std::atomic<bool> training = false;

}  // namespace

void note_training() {
  training = true;
}

bool is_training() {
  return training;
}

}  // namespace accelerate::detail
