// Full values that are always there: in memory of this rank's own, or in pages that all ranks of a
// host map, so that there is one copy of them and the owner of a slice writes it for everyone.
#pragma once

#include <memory>

#include "accelerate/comm/shared_memory/pages.h"
#include "accelerate/parallel/sharded/full_parameters.h"

namespace accelerate::detail {

class ResidentParameters final : public FullParameters {
 public:
  /// Over pages of `group`, the ranks that share the model; of this rank's own when it is one.
  explicit ResidentParameters(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}

  void adopt(Units& units) override;
  /// Everybody has come: nobody computes with the old values.
  void begin_update() override { group_->barrier(); }
  /// Everybody has written: the new values are there.
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
