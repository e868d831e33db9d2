#include "accelerate/comm/shared_memory/kept_memory.h"

#include <list>
#include <mutex>
#include <utility>

namespace accelerate::detail {
namespace {

class KeptMemory {
 public:
  void add(std::shared_ptr<void> memory, std::function<bool()> is_deserted) {
    {
      const std::lock_guard lock(mutex_);
      entries_.push_back({std::move(memory), std::move(is_deserted)});
    }
    release_deserted();
  }

  void release_deserted() {
    std::list<Entry> done;  // Destroyed without the lock: destructors may do anything.
    const std::lock_guard lock(mutex_);
    for (auto next = entries_.begin(); next != entries_.end();) {
      const auto entry = next++;
      if (entry->is_deserted && entry->is_deserted()) done.splice(done.end(), entries_, entry);
    }
  }

 private:
  struct Entry {
    std::shared_ptr<void> memory;
    std::function<bool()> is_deserted;  // Empty: kept forever.
  };
  std::mutex mutex_;
  std::list<Entry> entries_;
};

KeptMemory& kept_memory() {
  static auto* const kept = new KeptMemory;  // Never destroyed, so that destructors can use it.
  return *kept;
}

}  // namespace

void keep_until(std::shared_ptr<void> memory, std::function<bool()> is_deserted) {
  kept_memory().add(std::move(memory), std::move(is_deserted));
}

void release_deserted() {
  kept_memory().release_deserted();
}

void keep_forever(std::shared_ptr<void> memory) {
  kept_memory().add(std::move(memory), {});
}

}  // namespace accelerate::detail
