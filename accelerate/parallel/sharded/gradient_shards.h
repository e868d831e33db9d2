// From gradients of whole parameters on every rank to the mean of the ranks, of which each rank has
// its slice.
//
// A gradient is copied into the flat memory of its unit the moment it was accumulated, divided by
// the number of ranks, and let go. When a unit's gradients have all come its reduce-scatter starts,
// while backward goes on; units start in one order on all ranks, that in which rank 0's first
// backward completed them. Elements are summed in rank order, as an all-reduce of whole gradients
// would sum them. Micro-batches that do not synchronise add up in memory of the master type.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/gradient_hook.h"
#include "accelerate/parallel/gradients/usage.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/slot_pool.h"

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
  };

  GradientShards(Units& units, ShardGroups groups, Callbacks callbacks);

  /// Starts a backward of `loss`. `synchronize`: gradients end up in the parameters'
  /// local().grad(), where they add to what is there; else they only accumulate here. [collective
  /// when it synchronises] Ranks may reach different parameters: each says at once which, so that
  /// none waits for what another does not compute.
  void begin(bool synchronize, const at::Tensor& loss);
  /// Ends it: what did not come counts as zero, unless no rank has it. [collective when it
  /// synchronises] Returns the names of parameters that no rank has used. Throws CommError.
  std::vector<std::string> finish();
  /// Forgets a backward that failed, and what had been accumulated before it.
  void abandon() noexcept;

  /// Forgets the gradients of those parameters whose local() is among `locals` (TensorImpls).
  void zero(const std::unordered_set<const void*>& locals);
  /// Whether a backward has begun that neither ended nor was abandoned.
  [[nodiscard]] bool is_running() const { return running_; }

  [[nodiscard]] std::size_t bytes() const { return slice_bytes_ + slots_.bytes() + kept_bytes_; }
  [[nodiscard]] std::size_t peak_bytes() const { return peak_bytes_; }

 private:
  // What of a unit's gradients is here.
  struct Flow {
    Unit* unit = nullptr;
    std::vector<std::uint64_t> came;     // In this backward: a bit for each leaf of a parameter.
    std::vector<std::uint64_t> reached;  // The same of leaves that the graph leads to.
    std::vector<bool> held;              // In `kept`, from backwards that did not synchronise.
    std::vector<bool> had;               // What was held when this backward began.
    std::size_t awaited = 0;             // Leaves that the graph leads to and that have none yet.
    std::size_t missing = 0;             // Leaves that have none yet.
    at::Tensor slot, flat;               // {numel}, reduce type: on its way.
    at::Tensor kept;                     // {numel}, master type.
    at::Tensor grad;                     // {slice_numel}, master type: what local().grad() lies in.
    at::Tensor received;                 // {slice_numel}, reduce type.
    Work work;
    bool completed = false, launched = false;
  };

  void on_gradient(std::size_t flow, std::size_t parameter, std::size_t leaf);
  void take(Flow& flow, std::size_t parameter, const at::Tensor& gradient);
  void keep(Flow& flow, std::size_t parameter, const at::Tensor& gradient);
  void open(Flow& flow);
  void find_reached(const at::Tensor& loss);
  [[nodiscard]] bool is_ready(const Flow& flow);
  void launch_in_order();
  void launch_if(const std::function<bool(const Flow&)>& is_wanted);
  void launch(Flow& flow);
  void fill_absent(Flow& flow);
  void finish_oldest();
  void store(Flow& flow);
  void place(Flow& flow, std::size_t parameter, bool replace);
  [[nodiscard]] bool is_used(const Flow& flow) const;
  [[nodiscard]] std::vector<bool> usage_of_this_rank() const;
  [[nodiscard]] std::vector<bool> expected_usage_of_this_rank() const;
  void agree_on_order();
  void mark(Flow& flow);
  void forget(Flow& flow);
  void count_memory();

  ShardGroups groups_;
  Callbacks callbacks_;
  std::mutex mutex_;  // Gradients of several devices come on several threads.
  std::vector<Flow> flows_;
  std::vector<std::size_t> order_;      // Of flows, in which they start.
  std::vector<std::size_t> completed_;  // In the first backward, until the order is agreed on.
  bool order_is_agreed_ = false;
  std::size_t next_ = 0;  // Of order_.
  std::deque<std::size_t> under_way_;
  std::vector<std::size_t> first_parameter_;  // Of each flow, among all.
  Usage usage_;
  SlotPool slots_;
  bool synchronize_ = true;
  bool running_ = false;
  std::size_t slice_bytes_ = 0, kept_bytes_ = 0, peak_bytes_ = 0;
  std::vector<GradientHook> hooks_;  // Last: gone before what they use.
};

}  // namespace accelerate::detail
