// What goes wrong in a random play of sharded training, and where: drawn from a seed, the same on
// all ranks.
#pragma once

#include <chrono>
#include <random>
#include <string>

#include "accelerate/launch/config/enums.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "tests/parallel/sharded/sharded_net.h"

namespace accelerate::testing {

/// Where whole parameters live, and what the ranks talk through.
enum class Home { pages, windows, collectives, hierarchy };

enum class Fault {
  none,
  stopped_briefly,
  all_throw_and_go_on,  ///< The same exception on every rank, which each catches.
  reads_alone,          ///< The norm of a parameter on one rank.
  takes_other_branch,   ///< One rank runs a part of the model that the others leave out.
  throws_and_goes_on,   ///< An exception on one rank, which catches it and goes on with the next
                        ///< step.
  throws_and_retries,   ///< The same, and it begins the step again.
  one_step_fewer,
  one_step_more,
  killed,
  killed_at_any_time,
  stopped_then_killed,
  stopped_too_long,  ///< Until the others have given up.
  exits,
  throws,
  aborts
};

/// Where in the loop a rank is when it is struck.
enum class Moment {
  prepare,
  forward,
  backward,
  clip,
  step,
  zero_grad,
  summon,
  evaluation,
  between,
  end
};

inline constexpr int kStepsOfPlay = 6;

class ShardedFaultPlan {
 public:
  explicit ShardedFaultPlan(unsigned seed);

  /// The rank ends in it, sooner or later by no fault of the others.
  [[nodiscard]] bool is_deadly() const { return fault >= Fault::killed; }
  /// Training goes on as if nothing had been.
  [[nodiscard]] bool is_harmless() const {
    return fault <= Fault::reads_alone ||
           (fault == Fault::takes_other_branch && gathers_by_no_collective());
  }
  [[nodiscard]] bool is_from_outside() const {
    return fault == Fault::stopped_briefly || fault == Fault::killed_at_any_time ||
           fault == Fault::stopped_then_killed || fault == Fault::stopped_too_long;
  }
  /// A rank may read parameters that the others do not.
  [[nodiscard]] bool gathers_by_no_collective() const {
    return home == Home::pages || home == Home::windows;
  }
  /// A forward gathers other units than those of the ranks with which it shares a model.
  [[nodiscard]] bool gathers_more_in_forward() const;
  [[nodiscard]] int steps_of(int rank) const;
  [[nodiscard]] bool takes_branch(int rank, int at_step) const;
  [[nodiscard]] FullyShardedDataParallelPlugin plugin() const;
  [[nodiscard]] std::string describe() const;

  unsigned seed;
  Home home = Home::pages;
  int ranks = 2, victim = 0, step = 0;
  Fault fault = Fault::none;
  Moment moment = Moment::between;
  ShardingStrategy strategy = ShardingStrategy::FULL_SHARD;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::NO_PREFETCH;
  ShardedNetOptions net = {};
  int accumulation = 1;
  bool forward_prefetch = false;
  bool writes_back = false;   ///< What summon_full_params() changed.
  bool meets_at_end = false;  ///< A barrier after the last step.
  bool revives = false;       ///< What was stopped too long goes on, instead of being killed.
  std::chrono::microseconds delay{0};

 private:
  void draw_model(std::mt19937& random);
  void draw_fault(std::mt19937& random);
};

}  // namespace accelerate::testing
