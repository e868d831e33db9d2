#include "accelerate/checkpoint/save_plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace accelerate::detail {
namespace {

// Moves the files of models out of `planned`.
std::vector<PlannedFile> take_models(std::vector<PlannedFile>& planned) {
  const auto others = std::ranges::stable_partition(planned, &PlannedFile::is_model);
  std::vector<PlannedFile> models(std::make_move_iterator(planned.begin()),
                                  std::make_move_iterator(others.begin()));
  planned.erase(planned.begin(), others.begin());
  return models;
}

}  // namespace

SaveLayout layout_of(const SaveStateOptions& options, const TrainingState& training) {
  if (options.sharded) return SaveLayout::shards;
  if (!training.is_sharded()) return SaveLayout::by_leaders;
  if (training.saves == SpreadTensors::whole) return SaveLayout::whole;
  return options.whole_models ? SaveLayout::whole_models : SaveLayout::shards;
}

SavePlan::SavePlan(SaveLayout layout, std::vector<PlannedFile> planned) {
  if (layout == SaveLayout::by_leaders) {
    files_ = std::move(planned);
  } else if (layout == SaveLayout::whole) {
    collected_ = std::move(planned);
  } else {
    if (layout == SaveLayout::whole_models) collected_ = take_models(planned);
    shards_.emplace(std::move(planned));
  }
}

void SavePlan::agree(Communicator& ranks) {
  if (shards_) shards_->agree(ranks);
  if (!collected_.empty()) collector_ = plan_whole(collected_, ranks);
}

void SavePlan::divide() {
  if (shards_) files_ = shards_->share();
  shards_.reset();
  files_.insert(files_.end(), std::make_move_iterator(collected_.begin()),
                std::make_move_iterator(collected_.end()));
  collected_.clear();
}

void SavePlan::copy(const std::function<std::vector<PlannedFile>(std::vector<PlannedFile>)>& copy) {
  together([&] { files_ = copy(std::move(files_)); });
  collector_ = nullptr;  // All has been fetched.
}

void SavePlan::together(const std::function<void()>& step) const {
  collector_ ? collector_->together(step) : step();
}

}  // namespace accelerate::detail
