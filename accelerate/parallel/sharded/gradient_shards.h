// From gradients of whole parameters on every rank to the mean of the ranks, of which each rank has
// its slice.
//
// A gradient is copied into the flat memory of its unit the moment it was accumulated, and let go
// (UnitGradients). When a unit's gradients have all come its reduce-scatter starts, while backward
// goes on; units start in one order on all ranks, that in which rank 0's first backward completed
// them. Elements are summed in rank order, as an all-reduce of whole gradients would sum them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/gradient_hook.h"
#include "accelerate/parallel/gradients/usage.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/gradient_memory.h"
#include "accelerate/parallel/sharded/unit_gradients.h"

namespace accelerate::detail {

/// Who shares what. `replicate` is null when no other ranks have the same slices.
struct ShardGroups {
  std::shared_ptr<Communicator> world;      ///< All ranks that train the model.
  std::shared_ptr<Communicator> shard;      ///< Those that have one copy of it together.
  std::shared_ptr<Communicator> replicate;  ///< Those that have the same slices.
};

class GradientShards {
 public:
  struct Callbacks {
    std::function<void(const std::string& parameter)> guard;  ///< Throws for a stray gradient.
    std::function<void(const Unit&)> complete;                ///< All gradients of a unit came.
    std::function<void(const Unit&)> reduced;
    /// Whether a unit that this rank does not use in a backward, and another of the same copy of
    /// the model does, lets that one wait; null: never.
    std::function<bool(const Unit&)> needs_all_ranks;
  };

  GradientShards(Units& units, ShardGroups groups, Callbacks callbacks);

  /// Starts a backward of `loss`. `synchronize`: gradients end up in the parameters'
  /// local().grad(), where they add to what is there; else they only accumulate here. [collective
  /// when it synchronises] Ranks may reach different parameters: each says at once which, so that
  /// none waits for what another does not compute. Throws UsageError, here or later, where a unit
  /// needs all of them.
  void begin(bool synchronize, const at::Tensor& loss);
  /// Ends it: what did not come counts as zero, unless no rank has it. [collective when it
  /// synchronises] Returns the names of parameters that no rank has used; nothing when that is
  /// all of them, as in the backward of another model. Throws CommError.
  std::optional<std::vector<std::string>> finish();
  /// Forgets a backward that failed, and what had been accumulated before it.
  void abandon() noexcept;

  /// Drops the gradients whose leaf.grad() the program has taken away, as by module->zero_grad().
  void follow_leaves();
  /// Forgets the gradients of those parameters whose local() is among `locals` (TensorImpls);
  /// without `set_to_none` those that were summed up become zero.
  void zero(const std::unordered_set<const void*>& locals, bool set_to_none);
  /// Whether gradients of earlier backwards went with one that failed, and zero() has not told
  /// since that they are not wanted.
  [[nodiscard]] bool has_lost() const { return has_lost_; }
  /// A parameter whose gradient was summed up and neither zeroed here nor through its leaf; null
  /// when there is none.
  [[nodiscard]] const UnitParameter* holding_sum() const;
  /// Whether a backward has begun that neither ended nor was abandoned.
  [[nodiscard]] bool is_running() const { return running_; }

  [[nodiscard]] std::size_t bytes() const { return memory_.bytes(); }
  [[nodiscard]] std::size_t peak_bytes() const { return memory_.peak_bytes(); }

 private:
  using Question = bool (UnitGradients::*)(std::size_t parameter) const;

  void add_units(Units& units);
  [[nodiscard]] std::vector<std::size_t> initial_order() const;
  void watch_leaves();
  void find_reached(const at::Tensor& loss);
  [[nodiscard]] std::vector<bool> of_parameters(Question question) const;
  void on_gradient(std::size_t unit, std::size_t parameter, std::size_t leaf);
  [[nodiscard]] bool is_ready(const UnitGradients& gradients);
  [[nodiscard]] bool is_expected(const UnitGradients& gradients);
  void require_unreached(const UnitGradients& gradients);
  void launch_in_order();
  void launch_if(const std::function<bool(const UnitGradients&)>& is_wanted);
  void launch(UnitGradients& gradients);
  void finish_oldest();
  void launch_the_rest();
  [[nodiscard]] std::optional<std::vector<std::string>> unused() const;
  void agree_on_order();

  ShardGroups groups_;
  Callbacks callbacks_;
  std::mutex mutex_;  // Gradients of several devices come on several threads.
  GradientMemory memory_;
  std::vector<UnitGradients> gradients_;  // Of each unit that is trained.
  std::vector<std::size_t> order_;        // Of gradients_, in which they start.
  std::vector<std::size_t> completed_;    // In this backward, one after the other.
  bool order_is_agreed_ = false;
  std::size_t next_ = 0;  // Of order_.
  std::deque<UnitGradients*> under_way_;
  Usage usage_;                   // By all ranks.
  std::optional<Usage> reached_;  // By ranks of this copy, in this backward; if it matters.
  bool synchronize_ = true;
  bool running_ = false;
  bool has_lost_ = false;
  std::vector<GradientHook> hooks_;  // Last: gone before what they use.
};

}  // namespace accelerate::detail
