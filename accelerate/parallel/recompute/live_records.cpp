#include "accelerate/parallel/recompute/live_records.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace accelerate::detail {

LiveRecords& LiveRecords::of_thread() {
  thread_local LiveRecords records;
  return records;
}

void LiveRecords::add(const c10::StorageImpl* storage, std::weak_ptr<StorageHolder> record) {
  if (records_.size() >= most_) forget_expired();
  records_.emplace(storage, std::move(record));
}

void LiveRecords::forget_expired() {
  std::erase_if(records_, [](const auto& entry) { return entry.second.expired(); });
  most_ = std::max<std::size_t>(1024, 2 * records_.size());
}

void LiveRecords::before_write(const c10::StorageImpl* storage) {
  const auto [first, last] = records_.equal_range(storage);
  if (first == last) return;
  std::vector<std::shared_ptr<StorageHolder>> holders;
  for (auto it = first; it != last; ++it)
    if (auto record = it->second.lock()) holders.push_back(std::move(record));
  records_.erase(first, last);  // They copy what they hold.
  for (const auto& record : holders) record->before_write(storage);
}

}  // namespace accelerate::detail
