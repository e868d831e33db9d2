// This rank's parts of a sharded model's parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "accelerate/parallel/model_parts.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/gradient_shards.h"
#include "accelerate/parallel/sharded/whole_parameters.h"
#include "accelerate/tensor/module_view.h"
#include "accelerate/tensor/write_mark.h"

namespace accelerate::detail {

/// What a sharded model consists of on this rank.
struct ShardedModel {
  std::shared_ptr<Communicator> given;  ///< The group that `groups` were split off from.
  ShardGroups groups;
  std::shared_ptr<OffloadStore> store;  ///< Null when everything lives in memory.
  Units units;
  std::unique_ptr<FullParameters> full;
  std::unique_ptr<WholeParameters> whole;
  std::unique_ptr<GradientShards> gradients;  ///< Last: its hooks use the rest.

  /// Ends all groups, because the other ranks would wait for this one.
  void abort(const std::string& reason) const noexcept;
};

class ShardedParts final : public ModelParts, public SavedParts {
 public:
  /// `model`: with units whose leaves were adopted. `view`: its module.
  ShardedParts(ShardedModel& model, const ModuleView& view);

  /// Throws UsageError when the program changed parameters or parts behind the engine's back.
  void require_untouched() const;
  /// Throws UsageError when gradients of the last step are still there and no prepared optimizer
  /// has come. They would add up for ever. An optimizer that is not prepared does not call
  /// update(), which brings changes of the parts to the other ranks.
  void require_claimed() const;

  [[nodiscard]] bool is_sharded() const override { return true; }
  [[nodiscard]] const NamedShard* shard_of(const at::Tensor& leaf) const override;
  [[nodiscard]] Communicator* ranks_of(const at::Tensor& parameter) const override;
  void claim(const std::string& refusal) override;
  void update(const std::function<void()>& write) override { write_slices(write, updates_ + 1); }
  void follow_leaves() override { model_.gradients->follow_leaves(); }
  void zero_grad(const std::vector<at::Tensor>& locals, bool set_to_none = true) override;
  [[nodiscard]] bool has_lost_gradients() const override { return model_.gradients->has_lost(); }
  void begin_summon(const SummonOptions& options) override;
  void end_summon(bool writeback) override;

  [[nodiscard]] std::vector<NamedShard> shards() const override;
  void replace(const std::function<void()>& write) override { write_slices(write, 0); }
  void require_equal_updates() const override;

 private:
  [[nodiscard]] WriteMark mark(const at::Tensor& local) const;
  void write_slices(const std::function<void()>& write, std::int64_t updates);
  void run_or_abort(const std::function<void()>& run) const;
  void require_not_summoned(const std::string& what) const;
  // Throws UsageError after an update that failed halfway.
  void require_whole_update() const;

  ShardedModel& model_;
  std::vector<NamedShard> shards_;                        // One a leaf, in the model's order.
  std::unordered_map<const void*, std::size_t> by_leaf_;  // Into shards_.
  // Leaves over the same memory have one part. Marks are of the first shard with each part.
  std::unordered_set<const void*> locals_;
  std::vector<std::pair<std::size_t, WriteMark>> marks_;
  bool claimed_ = false;
  std::string lost_update_;   // Why the last update failed; empty if it did not.
  std::int64_t updates_ = 0;  // Of the parameters, since they were prepared or loaded.
};

}  // namespace accelerate::detail
