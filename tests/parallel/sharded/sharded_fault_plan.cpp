#include "tests/parallel/sharded/sharded_fault_plan.h"

#include <array>
#include <vector>

namespace accelerate::testing {
namespace {

constexpr std::array kHomes = {"pages", "windows", "collectives", "hierarchy"};
constexpr std::array kFaults = {"none",
                                "stopped_briefly",
                                "all_throw_and_go_on",
                                "reads_alone",
                                "takes_other_branch",
                                "throws_and_goes_on",
                                "throws_and_retries",
                                "one_step_fewer",
                                "one_step_more",
                                "killed",
                                "killed_at_any_time",
                                "stopped_then_killed",
                                "stopped_too_long",
                                "exits",
                                "throws",
                                "aborts"};
constexpr std::array kMoments = {"prepare",   "forward", "backward",   "clip",    "step",
                                 "zero_grad", "summon",  "evaluation", "between", "end"};
static_assert(kFaults.size() == static_cast<std::size_t>(Fault::aborts) + 1);
static_assert(kMoments.size() == static_cast<std::size_t>(Moment::end) + 1);

int draw(std::mt19937& random, int from, int to) {
  return std::uniform_int_distribution<int>(from, to)(random);
}

template <typename T>
T one_of(std::mt19937& random, const std::vector<T>& all) {
  return all[static_cast<std::size_t>(draw(random, 0, static_cast<int>(all.size()) - 1))];
}

// Where a fault can be: an exception in a backward or an update ends the group by design, so that
// nobody goes on from there; a parameter is read alone where no pass or update is going on.
std::vector<Moment> moments_of(Fault fault) {
  using enum Moment;
  if (fault == Fault::reads_alone) return {clip, zero_grad, between, end};
  if (fault == Fault::all_throw_and_go_on)
    return {forward, clip, zero_grad, summon, evaluation, between};
  if (fault == Fault::throws_and_goes_on || fault == Fault::throws_and_retries)
    return {forward, backward, clip, Moment::step, zero_grad, summon, evaluation, between};
  return {prepare,   forward, backward,   clip,    Moment::step,
          zero_grad, summon,  evaluation, between, end};
}

}  // namespace

ShardedFaultPlan::ShardedFaultPlan(unsigned any_seed) : seed(any_seed) {
  std::mt19937 random(seed);
  draw_model(random);
  draw_fault(random);
}

void ShardedFaultPlan::draw_model(std::mt19937& random) {
  const auto coin = [&random] { return draw(random, 0, 1) == 1; };
  home = static_cast<Home>(draw(random, 0, 3));
  ranks = draw(random, 2, 4);
  std::vector strategies = {ShardingStrategy::FULL_SHARD, ShardingStrategy::FULL_SHARD,
                            ShardingStrategy::SHARD_GRAD_OP, ShardingStrategy::NO_SHARD};
  if (ranks == 4) {
    strategies.push_back(ShardingStrategy::HYBRID_SHARD);
    strategies.push_back(ShardingStrategy::HYBRID_SHARD_ZERO2);
  }
  strategy = one_of(random, strategies);
  backward_prefetch =
      one_of(random, std::vector{BackwardPrefetch::NO_PREFETCH, BackwardPrefetch::BACKWARD_PRE,
                                 BackwardPrefetch::BACKWARD_POST});
  forward_prefetch = coin();
  net = {.blocks = 2, .tied = coin(), .frozen = coin(), .has_branch = coin()};
  accumulation = draw(random, 1, 2);
  writes_back = coin();
  meets_at_end = coin();
  revives = coin();
  delay = std::chrono::microseconds(draw(random, 0, 20'000));
}

void ShardedFaultPlan::draw_fault(std::mt19937& random) {
  fault = static_cast<Fault>(draw(random, 0, static_cast<int>(Fault::aborts)));
  moment = one_of(random, moments_of(fault));
  victim = draw(random, 0, ranks - 1);
  // Summons and evaluations are in odd steps; not in the last, after which nobody needs the others.
  step = draw(random, 0, 1) * 2 + 1;
  if (fault == Fault::takes_other_branch) net.has_branch = true;
}

// All gathers are in forward when units stay until the backward is over; else it may be a backward
// that ranks learn in. In a hierarchy ranks of one host share memory.
bool ShardedFaultPlan::gathers_more_in_forward() const {
  if (fault != Fault::takes_other_branch) return false;
  if (home == Home::hierarchy) return strategy == ShardingStrategy::SHARD_GRAD_OP;
  return home == Home::collectives && (strategy == ShardingStrategy::SHARD_GRAD_OP ||
                                       strategy == ShardingStrategy::HYBRID_SHARD_ZERO2);
}

int ShardedFaultPlan::steps_of(int rank) const {
  if (rank != victim) return kStepsOfPlay;
  return kStepsOfPlay + (fault == Fault::one_step_more ? 1 : 0) -
         (fault == Fault::one_step_fewer ? 1 : 0);
}

bool ShardedFaultPlan::takes_branch(int rank, int at_step) const {
  if (!net.has_branch) return false;
  const bool differs = fault == Fault::takes_other_branch && rank == victim && at_step == step;
  return differs != (at_step % 3 == 0);
}

FullyShardedDataParallelPlugin ShardedFaultPlan::plugin() const {
  auto plugin = testing::wrapping_blocks();
  plugin.sharding_strategy = strategy;
  plugin.backward_prefetch = backward_prefetch;
  plugin.forward_prefetch = forward_prefetch;
  plugin.full_parameters = home == Home::pages && strategy != ShardingStrategy::NO_SHARD
                               ? FullParametersHome::shared_pages
                               : FullParametersHome::gathered;
  if (strategy >= ShardingStrategy::HYBRID_SHARD) plugin.shard_group_size = 2;
  return plugin;
}

std::string ShardedFaultPlan::describe() const {
  const auto word = [](const auto& words, auto which) {
    return std::string(words[static_cast<std::size_t>(which)]);
  };
  return "seed " + std::to_string(seed) + ", " + word(kFaults, fault) + " in " +
         word(kMoments, moment) + " of step " + std::to_string(step) + " on rank " +
         std::to_string(victim) + " of " + std::to_string(ranks) + ", " + word(kHomes, home) +
         ", " + std::string(to_string(strategy));
}

}  // namespace accelerate::testing
