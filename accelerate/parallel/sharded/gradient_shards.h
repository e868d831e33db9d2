// Turns gradients of whole parameters on every rank into the mean over the ranks. Each rank gets
// its slice of the mean.
//
// A gradient is copied into the flat memory of its unit as soon as it is accumulated, and removed
// from its leaf (UnitGradients). When all gradients of a unit have come its reduce-scatter starts,
// while backward continues. Units start in one order on all ranks: the order in which rank 0's first
// backward completed them. Elements are summed in rank order, as an all-reduce of whole gradients
// would sum them.
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
#include "accelerate/parallel/sharded/slot_pool.h"
#include "accelerate/parallel/sharded/unit_gradients.h"

namespace accelerate::detail {

/// The groups of a sharded model. `replicate` is null when no other ranks have the same slices.
struct ShardGroups {
  std::shared_ptr<Communicator> world;      ///< All ranks that train the model.
  std::shared_ptr<Communicator> shard;      ///< The ranks that share one copy of the model.
  std::shared_ptr<Communicator> replicate;  ///< The ranks that have the same slices.
};

class GradientShards {
 public:
  struct Callbacks {
    std::function<void(const std::string& parameter)> guard;  ///< Throws for a stray gradient.
    std::function<void(const Unit&)> complete;                ///< All gradients of a unit came.
    std::function<void(const Unit&)> reduced;
    /// Whether other ranks of this copy of the model must wait when they use a unit in a backward
    /// and this rank does not; null: never.
    std::function<bool(const Unit&)> needs_all_ranks;
  };

  GradientShards(Units& units, ShardGroups groups, Callbacks callbacks);

  /// Starts a backward of `loss`. With `synchronize` gradients are added to the parameters'
  /// local.grad(); else they only accumulate here. [collective when it synchronises] Ranks may
  /// reach different parameters. Each announces which, so that none waits for a gradient that
  /// another does not compute. Throws UsageError, here or later, for a unit that needs all ranks
  /// and is reached by some.
  void begin(bool synchronize, const at::Tensor& loss);
  /// Ends the backward. A gradient that did not come counts as zero, unless no rank has it.
  /// [collective when it synchronises] Returns the names of parameters that no rank has used.
  /// Returns nullopt when no rank has used any, as in the backward of another model, and when
  /// gradients only accumulate. Throws CommError.
  std::optional<std::vector<std::string>> finish();
  /// Forgets a backward that failed, and what had been accumulated before it.
  void abandon() noexcept;

  /// Drops the gradients whose leaf.grad() the program has taken away, as by module->zero_grad().
  void follow_leaves();
  /// Drops the gradients of the parameters whose `local` is among `locals` (TensorImpls). With
  /// `set_to_none` false gradients that were summed up become zero.
  void zero(const std::unordered_set<const void*>& locals, bool set_to_none);
  /// Whether gradients of earlier backwards were lost in a backward that failed, and zero() has not
  /// been called since.
  [[nodiscard]] bool has_lost() const { return has_lost_; }
  /// Returns a parameter whose gradient was summed up and was zeroed neither here nor through its
  /// leaf; null if none.
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
  std::vector<UnitGradients> gradients_;  // One for each unit that is trained.
  std::vector<std::size_t> order_;        // Indices into gradients_, in starting order.
  std::vector<std::size_t> completed_;    // Indices completed in this backward, in order.
  bool order_is_agreed_ = false;
  std::size_t next_ = 0;  // Position in order_.
  std::deque<UnitGradients*> under_way_;
  Usage usage_;                   // Counts all ranks.
  std::optional<Usage> reached_;  // Counts the ranks of this copy, in this backward; if it matters.
  bool synchronize_ = true;
  bool running_ = false;
  bool has_lost_ = false;
  std::vector<GradientHook> hooks_;  // Last: destroyed before what they use.
};

}  // namespace accelerate::detail
