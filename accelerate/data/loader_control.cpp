#include "accelerate/data/loader_control.h"

#include "accelerate/base/logger.h"

namespace accelerate {

void LoaderControl::set_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  position_ = 0;
  resumes_ = false;
}

std::int64_t LoaderControl::begin_pass() {
  position_ = resumes_at();
  resumes_ = false;
  return ++newest_pass_;
}

void LoaderControl::report(std::int64_t pass, std::size_t batches) {
  if (pass == newest_pass_) position_ = batches;
}

void LoaderControl::resume(std::int64_t epoch, std::size_t batches) {
  epoch_ = epoch;
  position_ = batches;
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
