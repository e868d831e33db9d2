// Full values that are always there: in this rank's own memory, or in pages that all ranks of a
// host map. The pages hold one copy, and the owner of a slice writes it for all ranks.
#pragma once

#include <memory>

#include "accelerate/comm/shared_memory/pages.h"
#include "accelerate/parallel/sharded/full_parameters.h"

namespace accelerate::detail {

class ResidentParameters final : public FullParameters {
 public:
  /// Uses pages of `group`, the ranks that share the model; in a group of one, this rank's own
  /// memory.
  explicit ResidentParameters(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}

  void adopt(Units& units) override;
  /// Waits for all ranks, after which none computes with the old values.
  void begin_update() override { group_->barrier(); }
  /// Writes this rank's new values and waits until all ranks have done so.
  void end_update(std::int64_t updates) override;
  [[nodiscard]] std::size_t bytes() const override { return bytes_; }

 private:
  [[nodiscard]] at::Tensor allocate(c10::Device device);

  std::shared_ptr<Communicator> group_;
  std::shared_ptr<SharedPages> pages_;
  std::size_t bytes_ = 0;
  at::Tensor memory_;
  Units* units_ = nullptr;
};

}  // namespace accelerate::detail
