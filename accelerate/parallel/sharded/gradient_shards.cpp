#include "accelerate/parallel/sharded/gradient_shards.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/operations.h"
#include "accelerate/parallel/gradients/graph_walk.h"

namespace accelerate::detail {
namespace {

// One is filled while the other travels.
constexpr std::size_t kUnderWay = 1;

std::size_t count_parameters(const Units& units) {
  std::size_t count = 0;
  for (const auto& unit : units) {
    if (unit->is_trainable()) count += unit->parameters.size();
  }
  return count;
}

void refuse_unusable(const at::Tensor& gradient, const UnitParameter& parameter, const Unit& unit) {
  std::string found;
  if (gradient.is_sparse()) {
    found = "sparse; make it dense (sparse(false) of an Embedding)";
  } else if (gradient.requires_grad()) {
    found =
        "part of a graph (create_graph = true), which ends where gradients are sharded; train such "
        "a model with NO_SHARD left out of the plugin, as plain DDP";
  }
  if (found.empty()) return;
  throw UsageError("the gradient of '" + parameter.name + "' of " + unit.describe() + " is " +
                   found);
}

bool is_trained(const UnitParameter& parameter) {
  return parameter.leaf().requires_grad();
}

}  // namespace

GradientShards::GradientShards(Units& units, ShardGroups groups, Callbacks callbacks)
    : groups_(std::move(groups)),
      callbacks_(std::move(callbacks)),
      usage_(count_parameters(units), groups_.world->size()),
      slots_([this, &units](std::size_t bytes) {
        const auto options = at::TensorOptions(at::kByte).device(units.front()->spec().device);
        return groups_.shard->empty({static_cast<std::int64_t>(bytes)}, options);
      }) {
  std::size_t first = 0;
  for (auto& unit : units) {
    if (!unit->is_trainable()) continue;
    Flow& flow = flows_.emplace_back();
    flow.unit = unit.get();
    flow.held.resize(unit->parameters.size());
    first_parameter_.push_back(first);
    first += unit->parameters.size();
  }
  // The root's gradients come last, whatever is declared first; the others from the end on.
  order_.resize(flows_.size());
  std::iota(order_.rbegin(), order_.rend(), std::size_t{0});
  std::ranges::stable_partition(order_,
                                [this](std::size_t i) { return !flows_[i].unit->name().empty(); });
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    auto& parameters = flows_[f].unit->parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      for (std::size_t l = 0; l < parameters[p].leaves.size(); ++l) {
        const auto& leaf = parameters[p].leaves[l];
        if (leaf.requires_grad())
          hooks_.emplace_back(leaf, [this, f, p, l] { on_gradient(f, p, l); });
      }
    }
  }
}

// --- a backward ----------------------------------------------------------------------------------

// Autograd adds to what a leaf's grad holds, so that what only stands there for the slices goes. A
// program that took it away (module->zero_grad()) wants the gradients gone.
void GradientShards::begin(bool synchronize, const at::Tensor& loss) {
  const std::lock_guard lock(mutex_);
  synchronize_ = synchronize;
  running_ = true;
  next_ = 0;
  completed_.clear();
  for (auto& flow : flows_) {
    auto& parameters = flow.unit->parameters;
    flow.came.assign(parameters.size(), 0);
    flow.completed = flow.launched = false;
    flow.missing = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      UnitParameter& parameter = parameters[p];
      for (const auto& leaf : parameter.leaves) flow.missing += leaf.requires_grad() ? 1 : 0;
      if (!parameter.marker.defined()) continue;
      at::Tensor& grad = parameter.leaves.front().mutable_grad();
      if (!grad.defined()) {
        flow.held[p] = false;
        parameter.local.mutable_grad() = at::Tensor();
      }
      if (grad.is_same(parameter.marker)) grad = at::Tensor();
      parameter.marker = at::Tensor();
    }
    flow.had = flow.held;
  }
  if (!synchronize) return;
  find_reached(loss);
  usage_.ask(*groups_.world, expected_usage_of_this_rank());
}

// Which leaves this backward will give a gradient to, as far as the graph tells.
void GradientShards::find_reached(const at::Tensor& loss) {
  std::vector<at::Tensor> leaves;
  for (const auto& flow : flows_) {
    for (const auto& parameter : flow.unit->parameters) {
      leaves.insert(leaves.end(), parameter.leaves.begin(), parameter.leaves.end());
    }
  }
  const bool is_alone = groups_.world->size() == 1;
  const auto found =
      is_alone ? std::vector<bool>(leaves.size(), true) : reached_leaves(loss, leaves);
  auto next = found.begin();
  for (auto& flow : flows_) {
    flow.reached.assign(flow.came.size(), 0);
    flow.awaited = 0;
    for (std::size_t p = 0; p < flow.came.size(); ++p) {
      const auto& of_parameter = flow.unit->parameters[p].leaves;
      for (std::size_t l = 0; l < of_parameter.size(); ++l) {
        if (!*next++ || !of_parameter[l].requires_grad()) continue;
        flow.reached[p] |= std::uint64_t{1} << l;
        ++flow.awaited;
      }
    }
  }
}

void GradientShards::on_gradient(std::size_t index, std::size_t p, std::size_t l) {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  Flow& flow = flows_[index];
  UnitParameter& parameter = flow.unit->parameters[p];
  if (callbacks_.guard) callbacks_.guard(parameter.name);
  const at::Tensor gradient = std::exchange(parameter.leaves[l].mutable_grad(), at::Tensor());
  refuse_unusable(gradient, parameter, *flow.unit);
  if (flow.launched) {
    throw UsageError("the gradient of '" + parameter.name + "' of " + flow.unit->describe() +
                     " came again after that of the whole unit had been sent: a parameter gets "
                     "one gradient in a backward. Re-entrant checkpointing gives it several");
  }
  synchronize_ ? take(flow, p, gradient) : keep(flow, p, gradient);
  const std::uint64_t bit = std::uint64_t{1} << l;
  if ((std::exchange(flow.came[p], flow.came[p] | bit) & bit) == 0) {
    --flow.missing;
    if (synchronize_ && (flow.reached[p] & bit) != 0) --flow.awaited;
  }
  if (!synchronize_ || flow.awaited > 0 || !is_ready(flow)) return;
  if (std::exchange(flow.completed, true)) return;
  if (!order_is_agreed_) completed_.push_back(index);
  if (callbacks_.complete) callbacks_.complete(*flow.unit);
  launch_in_order();
}

void GradientShards::open(Flow& flow) {
  if (flow.flat.defined()) return;
  const Unit& unit = *flow.unit;
  const std::int64_t numel = unit.layout().numel();
  const auto bytes = static_cast<std::size_t>(numel) * c10::elementSize(unit.types().reduce);
  flow.slot = slots_.take(bytes);
  flow.flat = flow.slot.narrow(0, 0, static_cast<std::int64_t>(bytes)).view(unit.types().reduce);
  count_memory();
}

// Into the unit's flat memory, with what had been kept, divided by the number of ranks.
void GradientShards::take(Flow& flow, std::size_t p, const at::Tensor& gradient) {
  open(flow);
  at::Tensor place = flow.unit->part(flow.flat, p);
  const at::Tensor scale =
      at::scalar_tensor(1.0 / groups_.world->size(), at::TensorOptions(at::kDouble));
  if (flow.came[p] != 0) {
    place.add_(gradient, 1.0 / groups_.world->size());
  } else if (flow.held[p]) {
    at::Tensor kept = flow.unit->part(flow.kept, p);
    kept.add_(gradient);
    place.copy_(kept.mul_(scale));
    flow.held[p] = false;
  } else if (gradient.scalar_type() == place.scalar_type()) {
    at::mul_out(place, gradient, scale);
  } else {
    place.copy_(gradient).mul_(scale);
  }
}

void GradientShards::keep(Flow& flow, std::size_t p, const at::Tensor& gradient) {
  const Unit& unit = *flow.unit;
  if (!flow.kept.defined()) {
    flow.kept = at::empty({unit.layout().numel()},
                          at::TensorOptions(unit.types().master).device(unit.spec().device));
    kept_bytes_ += flow.kept.nbytes();
    count_memory();
  }
  at::Tensor place = unit.part(flow.kept, p);
  flow.held[p] ? place.add_(gradient) : place.copy_(gradient);
  flow.held[p] = true;
}

// --- reduction -----------------------------------------------------------------------------------

// All of it has come that this rank computes. Of what it does not compute, another rank does, and
// waits for this one to take part; what no rank reaches may still come (by a backward of a node's
// own) until the end.
bool GradientShards::is_ready(const Flow& flow) {
  if (flow.missing == 0) return true;
  if (flow.awaited > 0) return false;
  usage_.wait();
  const std::size_t first = first_parameter_[static_cast<std::size_t>(&flow - flows_.data())];
  for (std::size_t p = 0; p < flow.came.size(); ++p) {
    const auto leaves = flow.unit->parameters[p].leaves.size();
    const bool whole = static_cast<std::size_t>(std::popcount(flow.came[p])) == leaves;
    if (!whole && is_trained(flow.unit->parameters[p]) && !usage_.anywhere(first + p)) return false;
  }
  return true;
}

void GradientShards::launch_in_order() {
  while (next_ < order_.size() && is_ready(flows_[order_[next_]])) {
    launch(flows_[order_[next_++]]);
  }
}

void GradientShards::launch_if(const std::function<bool(const Flow&)>& is_wanted) {
  for (std::size_t i = next_; i < order_.size(); ++i) {
    if (is_wanted(flows_[order_[i]])) launch(flows_[order_[i]]);
  }
}

void GradientShards::launch(Flow& flow) {
  if (flow.launched) return;
  flow.launched = true;
  fill_absent(flow);
  if (flow.kept.defined() && std::ranges::none_of(flow.held, std::identity())) {
    kept_bytes_ -= flow.kept.nbytes();
    flow.kept = at::Tensor();
  }
  const Unit& unit = *flow.unit;
  const auto options = at::TensorOptions(unit.types().reduce).device(unit.spec().device);
  if (!flow.grad.defined()) {
    flow.grad = at::empty({unit.layout().slice_numel()}, unit.master.options());
    slice_bytes_ += flow.grad.nbytes();
    count_memory();
  }
  const bool in_place = flow.grad.options().type_equal(options) &&
                        std::ranges::none_of(unit.parameters, [](const auto& parameter) {
                          return parameter.local.grad().defined();
                        });
  flow.received = in_place ? flow.grad : at::empty({unit.layout().slice_numel()}, options);
  flow.work = groups_.shard->reduce_scatter(flow.received, flow.flat, ReduceOp::sum);
  under_way_.push_back(static_cast<std::size_t>(&flow - flows_.data()));
  while (under_way_.size() > kUnderWay) finish_oldest();
}

// What did not come counts with what had been kept, or zero.
void GradientShards::fill_absent(Flow& flow) {
  open(flow);
  for (std::size_t p = 0; p < flow.came.size(); ++p) {
    if (flow.came[p] != 0) continue;
    at::Tensor place = flow.unit->part(flow.flat, p);
    if (flow.held[p]) {
      place.copy_(flow.unit->part(flow.kept, p)).mul_(1.0 / groups_.world->size());
      flow.held[p] = false;
    } else {
      place.zero_();
    }
  }
}

void GradientShards::finish_oldest() {
  Flow& flow = flows_[under_way_.front()];
  under_way_.pop_front();
  flow.work.wait();
  flow.work = {};
  flow.flat = at::Tensor();
  slots_.give_back(std::exchange(flow.slot, {}));
  if (groups_.replicate) groups_.replicate->all_reduce(flow.received, ReduceOp::sum).wait();
  if (callbacks_.reduced) callbacks_.reduced(*flow.unit);
}

// --- the end -------------------------------------------------------------------------------------

std::vector<bool> GradientShards::usage_of_this_rank() const {
  std::vector<bool> used;
  for (const auto& flow : flows_) {
    for (std::size_t p = 0; p < flow.came.size(); ++p)
      used.push_back(flow.came[p] != 0 || flow.had[p]);
  }
  return used;
}

// Before the backward: what it will reach, and what came before it.
std::vector<bool> GradientShards::expected_usage_of_this_rank() const {
  std::vector<bool> used;
  for (const auto& flow : flows_) {
    for (std::size_t p = 0; p < flow.reached.size(); ++p)
      used.push_back(flow.reached[p] != 0 || flow.had[p]);
  }
  return used;
}

bool GradientShards::is_used(const Flow& flow) const {
  const std::size_t first = first_parameter_[static_cast<std::size_t>(&flow - flows_.data())];
  for (std::size_t p = 0; p < flow.came.size(); ++p) {
    if (usage_.anywhere(first + p)) return true;
  }
  return false;
}

std::vector<std::string> GradientShards::finish() {
  const std::lock_guard lock(mutex_);
  const at::NoGradGuard no_grad;
  std::vector<std::string> unused;
  running_ = false;
  if (!synchronize_) {
    for (auto& flow : flows_) mark(flow);
    return unused;
  }
  // What any rank was to reach, and may be waiting for, goes before anything is asked again.
  usage_.wait();
  launch_if([this](const Flow& flow) { return is_used(flow) || flow.missing == 0; });
  usage_.ask(*groups_.world, usage_of_this_rank());
  usage_.wait();
  launch_if([this](const Flow& flow) { return is_used(flow); });
  while (!under_way_.empty()) finish_oldest();
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    store(flows_[f]);
    for (std::size_t p = 0; p < flows_[f].came.size(); ++p) {
      const UnitParameter& parameter = flows_[f].unit->parameters[p];
      const bool used = usage_.anywhere(first_parameter_[f] + p);
      if (!used && is_trained(parameter)) unused.push_back(parameter.name);
    }
  }
  agree_on_order();
  return unused;
}

// A parameter that some rank used has a gradient on the rank that has its slice; one that no rank
// used keeps what it had.
void GradientShards::store(Flow& flow) {
  const std::size_t first = first_parameter_[static_cast<std::size_t>(&flow - flows_.data())];
  if (flow.launched) {
    for (std::size_t p = 0; p < flow.came.size(); ++p) {
      const bool wanted = usage_.anywhere(first + p) && is_trained(flow.unit->parameters[p]);
      if (wanted) place(flow, p, flow.received.is_same(flow.grad));
    }
  }
  flow.received = at::Tensor();
  mark(flow);
}

void GradientShards::place(Flow& flow, std::size_t p, bool in_place) {
  UnitParameter& parameter = flow.unit->parameters[p];
  const auto& piece = parameter.piece;
  at::Tensor there = parameter.local.grad();
  if (!in_place) {
    const at::Tensor came = flow.received.narrow(0, piece.in_slice, piece.numel);
    if (there.defined()) {
      there.add_(came.to(there.options()));
      return;
    }
    flow.grad.narrow(0, piece.in_slice, piece.numel).copy_(came);
  }
  at::Tensor grad = at::empty({0}, flow.grad.options());
  grad.set_(flow.grad.storage(), flow.grad.storage_offset() + piece.in_slice, {piece.numel});
  parameter.local.mutable_grad() = grad;
}

// Leaves show that there is a gradient, of the parameter's shape, and say where it is to whoever
// reads it.
void GradientShards::mark(Flow& flow) {
  for (std::size_t p = 0; p < flow.unit->parameters.size(); ++p) {
    UnitParameter& parameter = flow.unit->parameters[p];
    if (!flow.held[p] && !parameter.local.grad().defined()) continue;
    parameter.marker = flow.unit->gradient_marker(p);
    parameter.leaves.front().mutable_grad() = parameter.marker;
  }
}

void GradientShards::agree_on_order() {
  if (order_is_agreed_) return;
  order_is_agreed_ = true;
  // Rank 0's, then what it did not complete, as it was.
  std::vector<std::size_t> order = completed_;
  for (const std::size_t flow : order_) {
    if (std::ranges::find(order, flow) == order.end()) order.push_back(flow);
  }
  at::Tensor sent = at::empty({static_cast<std::int64_t>(order.size())}, at::kLong);
  std::ranges::copy(order, sent.mutable_data_ptr<std::int64_t>());
  groups_.world->broadcast(sent, 0).wait();
  const auto* agreed = sent.const_data_ptr<std::int64_t>();
  order_.assign(agreed, agreed + sent.numel());
}

void GradientShards::forget(Flow& flow) {
  flow.work = {};
  flow.flat = flow.received = at::Tensor();
  slots_.give_back(std::exchange(flow.slot, {}));
  if (flow.kept.defined()) kept_bytes_ -= flow.kept.nbytes();
  flow.kept = at::Tensor();
  flow.held.assign(flow.held.size(), false);
}

void GradientShards::abandon() noexcept {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(running_, false)) return;
  under_way_.clear();
  for (auto& flow : flows_) {
    forget(flow);
    for (auto& parameter : flow.unit->parameters) {
      for (auto& leaf : parameter.leaves) leaf.mutable_grad() = at::Tensor();
    }
  }
}

void GradientShards::zero(const std::unordered_set<const void*>& locals) {
  const std::lock_guard lock(mutex_);
  for (auto& flow : flows_) {
    for (std::size_t p = 0; p < flow.held.size(); ++p) {
      UnitParameter& parameter = flow.unit->parameters[p];
      if (!locals.contains(parameter.local.unsafeGetTensorImpl())) continue;
      flow.held[p] = false;
      parameter.local.mutable_grad() = at::Tensor();
      at::Tensor& grad = parameter.leaves.front().mutable_grad();
      if (parameter.marker.defined() && grad.is_same(parameter.marker)) grad = at::Tensor();
      parameter.marker = at::Tensor();
    }
  }
}

void GradientShards::count_memory() {
  peak_bytes_ = std::max(peak_bytes_, bytes());
}

}  // namespace accelerate::detail
