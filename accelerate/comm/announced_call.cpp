#include "accelerate/comm/announced_call.h"

namespace accelerate::detail {
namespace {

thread_local const char* current = nullptr;

}  // namespace

AnnouncedCall::AnnouncedCall(const char* name) : before_(current) {
  if (current == nullptr) current = name;
}

AnnouncedCall::~AnnouncedCall() {
  current = before_;
}

const char* announced_call() {
  return current;
}

}  // namespace accelerate::detail
