#include "accelerate/data/loader_control.h"

#include <algorithm>

#include "accelerate/base/logger.h"

namespace accelerate {

void LoaderControl::set_epoch(std::int64_t epoch) {
  place_ = {.epoch = epoch};
  resumes_ = false;
}

std::int64_t LoaderControl::begin_pass() {
  place_ = {.epoch = place_.epoch, .batches = resumes_at(), .offset = offset()};
  resumes_ = false;
  passes_.push_back({.number = ++passes_begun_, .place = place_});
  return passes_begun_;
}

void LoaderControl::report(std::int64_t pass, std::size_t batches) {
  for (Pass& known : passes_) {
    if (known.number == pass) known.place.batches = batches;
  }
}

void LoaderControl::end_pass(std::int64_t pass) noexcept {
  const auto found = std::ranges::find(passes_, pass, &Pass::number);
  if (found == passes_.end()) return;
  if (found->place.epoch == place_.epoch && !resumes_) place_ = found->place;
  passes_.erase(found);
}

void LoaderControl::resume(const Place& place) {
  place_ = place;
  resumes_ = true;
}

EvenBatchesScope::EvenBatchesScope(std::vector<std::shared_ptr<LoaderControl>> loaders,
                                   bool even_batches) {
  bool left_alone = false;
  for (auto& loader : loaders) {
    if (loader->always_even()) {
      left_alone = true;
      continue;
    }
    before_.emplace_back(loader, loader->even_batches());
    loader->set_even_batches(even_batches);
  }
  if (left_alone && !even_batches) {
    get_logger("accelerate.data")
        .warning(
            "even_batches = false leaves loaders with dispatch_batches as they are: rank 0 deals "
            "out equal parts in every step. Set dispatch_batches = false to have each rank read "
            "its own.");
  }
}

EvenBatchesScope::~EvenBatchesScope() {
  for (auto& [loader, even_batches] : before_) loader->set_even_batches(even_batches);
}

}  // namespace accelerate
