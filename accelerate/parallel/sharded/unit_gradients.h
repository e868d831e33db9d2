// The gradients of one unit on this rank, from autograd's leaves to the slice that an optimizer
// reads.
//
//   leaf.grad() ────────────> flat ── reduce-scatter ──> slice, local.grad()
//        └──────> kept ─────────┘
//
// A gradient leaves its leaf as soon as it is there. A backward that synchronises copies it into
// flat memory, divided by the number of ranks; one that does not adds it to what is kept, in the
// master type, which goes with the next that does. A marker in leaf.grad() then stands for it.
//
// GradientShards says when; it also locks, for nothing here does.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/usage.h"
#include "accelerate/parallel/sharded/gradient_memory.h"
#include "accelerate/parallel/sharded/unit.h"

namespace accelerate::detail {

class UnitGradients {
 public:
  /// `unit` and `memory` outlive this. A Usage counts the unit's parameters from `first` on; what
  /// is in the end in local.grad() is the mean over `ranks`.
  UnitGradients(Unit& unit, GradientMemory& memory, std::size_t first, int ranks);

  [[nodiscard]] const Unit& unit() const { return *unit_; }

  // --- a backward ------------------------------------------------------------------------------

  /// Nothing has come yet, nor is anything awaited.
  void begin();
  /// Awaits the leaves that this backward will reach: `reached` has one answer for each leaf of the
  /// unit, in order. Returns what follows them.
  std::vector<bool>::const_iterator expect(std::vector<bool>::const_iterator reached);
  /// Takes the gradient of a leaf away from it; `synchronize`: into flat memory, else to what is
  /// kept. Throws UsageError: it is sparse or part of a graph, or the unit has been launched.
  void take(std::size_t parameter, std::size_t leaf, bool synchronize);

  /// Every leaf that is trained, if any, has its gradient.
  [[nodiscard]] bool has_all() const { return missing_ == 0; }
  /// Some leaf that the graph leads to has none yet.
  [[nodiscard]] bool awaits_more() const { return awaited_ > 0; }
  /// What has not come is computed on some rank.
  [[nodiscard]] bool lacks_only_used(const Usage& usage) const;
  /// The graph of this backward leads to the parameter.
  [[nodiscard]] bool is_reached(std::size_t parameter) const { return reached_[parameter] != 0; }
  /// A gradient is to come in this backward, or came before it.
  [[nodiscard]] bool is_expected(std::size_t parameter) const;
  /// That of any parameter.
  [[nodiscard]] bool is_expected() const;
  /// A gradient came, in this backward or before it.
  [[nodiscard]] bool has_come(std::size_t parameter) const;
  /// Some rank uses some of the unit.
  [[nodiscard]] bool is_used(const Usage& usage) const;
  /// Names of trained parameters that no rank uses.
  [[nodiscard]] std::vector<std::string> unused(const Usage& usage) const;

  // --- reduction -------------------------------------------------------------------------------

  /// Sends all, what was kept included; what never came is zero. [collective over `shard`]
  void launch(Communicator& shard);
  [[nodiscard]] bool is_launched() const { return launched_; }
  /// Waits for the slice, sums it over `replicate` unless that is null [collective over it], and
  /// adds it to the local.grad() that there are.
  void finish(Communicator* replicate);

  // --- the end ---------------------------------------------------------------------------------

  /// Each parameter that some rank used has a local.grad(); others keep what they had. Marks the
  /// leaves.
  void store(const Usage& usage);
  /// Leaves of which there is a gradient show it by a marker.
  void mark();
  /// A parameter whose marker was taken away has lost its gradient, as by module->zero_grad().
  void follow_leaves();
  /// Forgets what came, what was kept and what is on its way. Returns whether that was more than
  /// the backward under way had brought.
  bool abandon();
  /// Forgets the gradients of those parameters whose local is among `locals` (TensorImpls);
  /// without `set_to_none` a local.grad() becomes zero.
  void zero(const std::unordered_set<const void*>& locals, bool set_to_none);
  /// The first parameter whose gradient was summed up and neither dropped nor forgotten here.
  [[nodiscard]] const UnitParameter* holding_sum() const;

 private:
  void send(std::size_t parameter, const at::Tensor& gradient);
  void keep(std::size_t parameter, const at::Tensor& gradient);
  void note(std::size_t parameter, std::size_t leaf);
  void open();
  void close();
  void fill_absent();
  [[nodiscard]] bool receives_in_slice(const Communicator& shard) const;
  void move_to_slice();
  void show(std::size_t parameter);
  void drop(std::size_t parameter);

  Unit* unit_;
  GradientMemory* memory_;
  std::size_t first_;
  double share_;                        // Of a rank in the mean.
  std::vector<std::uint64_t> came_;     // In this backward: a bit for each leaf of a parameter.
  std::vector<std::uint64_t> reached_;  // The same of leaves that the graph leads to.
  std::vector<bool> held_;              // In `kept_`, from backwards that did not synchronise.
  std::vector<bool> had_;               // What was held when this backward began.
  std::size_t awaited_ = 0;             // Leaves that the graph leads to and that have none yet.
  std::size_t missing_ = 0;             // Leaves that have none yet.
  at::Tensor slot_, flat_;              // {numel}, reduce type: on its way.
  at::Tensor kept_;                     // {numel}, master type.
  at::Tensor slice_;                    // {slice_numel}, master type: local.grad() lies in it.
  at::Tensor received_;                 // {slice_numel}, reduce type: `slice_`, or part of `flat_`.
  Work work_;
  bool launched_ = false;
};

}  // namespace accelerate::detail
