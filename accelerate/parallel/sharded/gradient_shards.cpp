#include "accelerate/parallel/sharded/gradient_shards.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "accelerate/parallel/gradients/usage.h"

namespace accelerate::detail {
namespace {

// Units that travel at a time; another unit is filled meanwhile.
constexpr std::size_t kUnderWay = 1;

std::size_t count_parameters(const Units& units) {
  std::size_t count = 0;
  for (const auto& unit : units) {
    if (unit->is_trainable()) count += unit->parameters.size();
  }
  return count;
}

}  // namespace

GradientShards::GradientShards(Units& units, ShardGroups groups, Callbacks callbacks)
    : groups_(std::move(groups)),
      callbacks_(std::move(callbacks)),
      memory_([this, &units](std::size_t bytes) {
        if (units.front()->storage.store && groups_.shard->size() == 1)
          return aligned_memory(bytes);
        const auto options = at::TensorOptions(at::kByte).device(units.front()->spec().device);
        return groups_.shard->empty({static_cast<std::int64_t>(bytes)}, options);
      }),
      usage_(count_parameters(units), groups_.world->size()) {
  if (callbacks_.needs_all_ranks) reached_ = usage_;
  add_units(units);
  order_ = initial_order();
  watch_leaves();
}

void GradientShards::add_units(Units& units) {
  std::size_t first = 0;
  for (auto& unit : units) {
    if (!unit->is_trainable()) continue;
    gradients_.emplace_back(*unit, memory_, first, groups_.world->size());
    first += unit->parameters.size();
  }
}

// Returns the order before ranks agree on one: the last unit first, and the root last, because its
// gradients come last wherever it is declared.
std::vector<std::size_t> GradientShards::initial_order() const {
  std::vector<std::size_t> order(gradients_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  std::ranges::stable_partition(
      order, [this](std::size_t i) { return !gradients_[i].unit().name().empty(); });
  return order;
}

void GradientShards::watch_leaves() {
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    const auto& parameters = gradients_[i].unit().parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (std::size_t l = 0; l < parameters[p].leaves.size(); ++l) {
        const auto& leaf = parameters[p].leaves[l];
        if (leaf.requires_grad())
          hooks_.emplace_back(leaf, [this, i, p, l] { on_gradient(i, p, l); });
      }
    }
  }
}

// --- a backward ----------------------------------------------------------------------------------

void GradientShards::begin(bool synchronize, const at::Tensor& loss) {
  const std::lock_guard lock(mutex_);
  synchronize_ = synchronize;
  running_ = true;
  next_ = 0;
  completed_.clear();
  for (auto& gradients : gradients_) gradients.begin();
  if (!synchronize) return;
  find_reached(loss);
  usage_.ask(*groups_.world, of_parameters(&UnitGradients::is_expected));
  if (reached_) reached_->ask(*groups_.shard, of_parameters(&UnitGradients::is_reached));
}

// Finds the leaves that this backward will give a gradient to, as far as the graph tells.
void GradientShards::find_reached(const at::Tensor& loss) {
  std::vector<at::Tensor> leaves;
  for (const auto& gradients : gradients_) {
    for (const auto& parameter : gradients.unit().parameters) {
      leaves.insert(leaves.end(), parameter.leaves.begin(), parameter.leaves.end());
    }
  }
  const bool is_alone = groups_.world->size() == 1;
  const auto reached =
      is_alone ? std::vector<bool>(leaves.size(), true) : reached_leaves(loss, leaves);
  auto next = reached.begin();
  for (auto& gradients : gradients_) next = gradients.expect(next);
}

// Returns the answer to `question` for each parameter, as usage_ counts them.
std::vector<bool> GradientShards::of_parameters(Question question) const {
  std::vector<bool> answers;
  for (const auto& gradients : gradients_) {
    for (std::size_t p = 0; p < gradients.unit().parameters.size(); ++p)
      answers.push_back((gradients.*question)(p));
  }
  return answers;
}

void GradientShards::on_gradient(std::size_t i, std::size_t p, std::size_t l) {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  UnitGradients& gradients = gradients_[i];
  const Unit& unit = gradients.unit();
  if (callbacks_.guard) callbacks_.guard(unit.parameters[p].name);
  gradients.take(p, l, synchronize_);
  if (synchronize_ ? !is_ready(gradients) : !gradients.has_all()) return;
  if (std::ranges::find(completed_, i) != completed_.end()) return;
  completed_.push_back(i);
  if (callbacks_.complete) callbacks_.complete(unit);
  if (synchronize_) launch_in_order();
}

// --- reduction -----------------------------------------------------------------------------------

// Whether the unit may be launched: every gradient that this rank computes has come, and other
// ranks use the rest of the unit. They wait for this rank to take part. A gradient that no rank
// reaches may still come until the end (by a nested backward of a node).
bool GradientShards::is_ready(const UnitGradients& gradients) {
  if (gradients.has_all()) return true;
  if (gradients.awaits_more()) return false;
  usage_.wait();
  return gradients.lacks_only_used(usage_);
}

// Whether some rank expects a gradient of the unit. Waits for the other ranks' answers only when
// this rank expects none.
bool GradientShards::is_expected(const UnitGradients& gradients) {
  if (gradients.is_expected()) return true;
  usage_.wait();
  if (!gradients.is_used(usage_)) return false;
  require_unreached(gradients);
  return true;
}

// Throws UsageError when another rank of the copy reaches the unit and must gather it, which takes
// all ranks of the copy.
void GradientShards::require_unreached(const UnitGradients& gradients) {
  if (!reached_ || !callbacks_.needs_all_ranks(gradients.unit())) return;
  reached_->wait();
  if (!gradients.is_used(*reached_)) return;
  throw UsageError("another rank computes gradients of " + gradients.unit().describe() +
                   " in this backward and rank " + std::to_string(groups_.world->rank()) +
                   " none: across hosts all ranks run the same parts of a sharded model");
}

// Launches units in order as far as they are ready. A unit that no rank expects waits for the end,
// when all ranks know which gradients came all the same.
void GradientShards::launch_in_order() {
  for (; next_ < order_.size(); ++next_) {
    UnitGradients& next = gradients_[order_[next_]];
    if (!is_expected(next)) continue;
    if (!is_ready(next)) return;
    launch(next);
  }
}

void GradientShards::launch_if(const std::function<bool(const UnitGradients&)>& is_wanted) {
  for (const std::size_t i : order_) {
    if (is_wanted(gradients_[i])) launch(gradients_[i]);
  }
}

void GradientShards::launch(UnitGradients& gradients) {
  if (gradients.is_launched()) return;
  gradients.launch(*groups_.shard);
  under_way_.push_back(&gradients);
  while (under_way_.size() > kUnderWay) finish_oldest();
}

void GradientShards::finish_oldest() {
  UnitGradients& oldest = *under_way_.front();
  under_way_.pop_front();
  oldest.finish(groups_.replicate.get());
  if (callbacks_.reduced) callbacks_.reduced(oldest.unit());
}

// --- the end -------------------------------------------------------------------------------------

std::optional<std::vector<std::string>> GradientShards::finish() {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  running_ = false;
  if (!synchronize_) {
    for (auto& gradients : gradients_) gradients.mark();
    return std::nullopt;
  }
  launch_the_rest();
  while (!under_way_.empty()) finish_oldest();
  memory_.settle();
  for (auto& gradients : gradients_) gradients.store(usage_);
  agree_on_order();
  return unused();
}

std::optional<std::vector<std::string>> GradientShards::unused() const {
  if (!usage_.any()) return std::nullopt;
  std::vector<std::string> names;
  for (const auto& gradients : gradients_) {
    std::ranges::move(gradients.unused(usage_), std::back_inserter(names));
  }
  return names;
}

// Launches the units that some rank expects before it asks again, because that rank may be waiting
// for them.
void GradientShards::launch_the_rest() {
  launch_if([this](const auto& gradients) { return is_expected(gradients); });
  usage_.wait();
  usage_.ask(*groups_.world, of_parameters(&UnitGradients::has_come));
  usage_.wait();
  launch_if([this](const auto& gradients) { return gradients.is_used(usage_); });
}

void GradientShards::agree_on_order() {
  if (order_is_agreed_ || !usage_.any()) return;  // The backward of another model tells nothing.
  order_is_agreed_ = true;
  // Units that this rank completed, then the others in their old order. Rank 0's order counts.
  std::vector<std::size_t> order = completed_;
  for (const std::size_t i : order_) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  }
  at::Tensor sent = at::empty({static_cast<std::int64_t>(order.size())}, at::kLong);
  std::ranges::copy(order, sent.mutable_data_ptr<std::int64_t>());
  groups_.world->broadcast(sent, 0).wait();
  const auto* agreed = sent.const_data_ptr<std::int64_t>();
  order_.assign(agreed, agreed + sent.numel());
}

void GradientShards::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(running_, false)) return;
  under_way_.clear();
  memory_.abandon();
  for (auto& gradients : gradients_) has_lost_ |= gradients.abandon();
}

void GradientShards::follow_leaves() {
  const std::lock_guard lock(mutex_);
  for (auto& gradients : gradients_) gradients.follow_leaves();
}

void GradientShards::zero(const std::unordered_set<const void*>& locals, bool set_to_none) {
  const std::lock_guard lock(mutex_);
  has_lost_ = false;
  for (auto& gradients : gradients_) gradients.zero(locals, set_to_none);
}

const UnitParameter* GradientShards::holding_sum() const {
  for (const auto& gradients : gradients_) {
    if (const auto* parameter = gradients.holding_sum()) return parameter;
  }
  return nullptr;
}

}  // namespace accelerate::detail
