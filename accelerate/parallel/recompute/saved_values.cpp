#include "accelerate/parallel/recompute/saved_values.h"

#include <ATen/core/Tensor.h>

#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/recompute/recorded_tensors.h"
#include "accelerate/parallel/recompute/replay.h"
#include "accelerate/parallel/recompute/unit_record.h"

namespace accelerate::detail {
namespace {

class SavedValue final : public compat::SavedTensorHooks {
 public:
  explicit SavedValue(std::shared_ptr<UnitRecord> record) : record_(std::move(record)) {}

  void call_pack_hook(const at::Tensor& saved) override {
    version_ = Version(saved);
    dropped_ = record_->drop(saved);
    if (!dropped_) kept_ = saved.detach();
  }

  at::Tensor call_unpack_hook() override {
    // As LibTorch does where there are no hooks.
    if (version_.has_changed()) {
      throw UsageError("a tensor that " + record_->unit() +
                       " needs for its gradient was changed by an in-place operation after it was "
                       "saved. Change a copy instead");
    }
    return dropped_ ? Replay::value_of(*dropped_) : kept_;
  }

 private:
  std::shared_ptr<UnitRecord> record_;
  std::shared_ptr<DroppedTensor> dropped_;
  at::Tensor kept_;
  Version version_;
};

}  // namespace

std::unique_ptr<compat::SavedTensorHooks> saved_in(std::shared_ptr<UnitRecord> record) {
  return std::make_unique<SavedValue>(std::move(record));
}

}  // namespace accelerate::detail
