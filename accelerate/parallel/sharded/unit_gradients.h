// The gradients of one unit on this rank, from autograd's leaves to the slice that an optimizer
// reads.
//
//   leaf.grad() ────────────> flat ── reduce-scatter ──> slice, local.grad()
//        └──────> kept ─────────┘
//
// A gradient leaves its leaf as soon as it is accumulated. A backward that synchronises copies it
// into flat memory, divided by the number of ranks. A backward that does not synchronise adds it to
// the kept gradients, in the master type. They are sent with the next backward that synchronises. A
// marker in leaf.grad() then stands for the gradient.
//
// GradientShards decides when these functions run, and holds a lock meanwhile.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <unordered_set>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/gradients/usage.h"
#include "accelerate/parallel/sharded/slot_pool.h"
#include "accelerate/parallel/sharded/unit.h"

namespace accelerate::detail {

class UnitGradients {
 public:
  /// `unit` and `memory` must outlive this object. `first`: index of the unit's first parameter in
  /// a Usage. `ranks`: number of ranks over which local.grad() becomes the mean.
  UnitGradients(Unit& unit, GradientMemory& memory, std::size_t first, int ranks);

  [[nodiscard]] const Unit& unit() const { return *unit_; }

  // --- a backward ------------------------------------------------------------------------------

  /// Starts a backward in which nothing has come yet and nothing is awaited.
  void begin();
  /// Awaits the leaves that this backward will reach: `reached` has one answer for each leaf of the
  /// unit, in order. Returns the iterator behind these answers.
  std::vector<bool>::const_iterator expect(std::vector<bool>::const_iterator reached);
  /// Takes the gradient away from a leaf. With `synchronize` it goes into flat memory, else to the
  /// kept gradients. Throws UsageError when it is sparse or part of a graph, or the unit has been
  /// launched.
  void take(std::size_t parameter, std::size_t leaf, bool synchronize);

  /// Whether every trained leaf, if any, has its gradient.
  [[nodiscard]] bool has_all() const { return missing_ == 0; }
  /// Whether some leaf that the graph leads to has no gradient yet.
  [[nodiscard]] bool awaits_more() const { return awaited_ > 0; }
  /// Whether all trained parameters that lack a gradient are used by some rank.
  [[nodiscard]] bool lacks_only_used(const Usage& usage) const;
  /// Whether the graph of this backward leads to the parameter.
  [[nodiscard]] bool is_reached(std::size_t parameter) const { return reached_[parameter] != 0; }
  /// Whether a gradient is to come in this backward, or came before it.
  [[nodiscard]] bool is_expected(std::size_t parameter) const;
  /// Whether a gradient of any parameter is expected.
  [[nodiscard]] bool is_expected() const;
  /// Whether a gradient came, in this backward or before it.
  [[nodiscard]] bool has_come(std::size_t parameter) const;
  /// Whether some rank uses some parameter of the unit.
  [[nodiscard]] bool is_used(const Usage& usage) const;
  /// Returns the names of trained parameters that no rank uses.
  [[nodiscard]] std::vector<std::string> unused(const Usage& usage) const;

  // --- reduction -------------------------------------------------------------------------------

  /// Starts to send all gradients, kept ones included; a gradient that never came counts as zero.
  /// [collective over `shard`]
  void launch(Communicator& shard);
  [[nodiscard]] bool is_launched() const { return launched_; }
  /// Waits for the slice, sums it over `replicate` unless that is null, and adds it to each
  /// local.grad() that exists. [collective over `replicate`]
  void finish(Communicator* replicate);

  // --- the end ---------------------------------------------------------------------------------

  /// Gives a local.grad() to each parameter that some rank used; other parameters keep what they
  /// had. Marks the leaves.
  void store(const Usage& usage);
  /// Puts a marker into the first leaf of each parameter that has a gradient.
  void mark();
  /// Drops the gradient of each parameter whose marker was taken away, as by module->zero_grad().
  void follow_leaves();
  /// Forgets the gradients that came, were kept or are under way. Returns whether any of them was
  /// kept before the present backward.
  bool abandon();
  /// Drops the gradients of the parameters whose `local` is among `locals` (TensorImpls). With
  /// `set_to_none` false a local.grad() becomes zero.
  void zero(const std::unordered_set<const void*>& locals, bool set_to_none);
  /// Returns the first parameter whose gradient was summed up and neither dropped nor zeroed here;
  /// null if none.
  [[nodiscard]] const UnitParameter* holding_sum() const;

 private:
  [[nodiscard]] bool any_parameter(const auto& is_so) const {
    return std::ranges::any_of(std::views::iota(std::size_t{0}, came_.size()), is_so);
  }
  void send(std::size_t parameter, const at::Tensor& gradient);
  void keep(std::size_t parameter, const at::Tensor& gradient);
  [[nodiscard]] at::Tensor make_kept();
  void release_kept();
  void note(std::size_t parameter, std::size_t leaf);
  void open();
  void close();
  void fill_absent();
  [[nodiscard]] bool receives_in_slice(const Communicator& shard) const;
  void write_slice();
  void move_to(const at::Tensor& slice);
  void show(std::size_t parameter);
  void drop(std::size_t parameter);

  Unit* unit_;
  GradientMemory* memory_;
  std::size_t first_;
  double share_;                        // A rank's share of the mean.
  std::vector<std::uint64_t> came_;     // In this backward: a bit for each leaf of a parameter.
  std::vector<std::uint64_t> reached_;  // As `came_`, for leaves that the graph leads to.
  std::vector<bool> held_;              // Whether in `kept_`, by backwards without synchronisation.
  std::vector<bool> had_;               // `held_` when this backward began.
  std::size_t awaited_ = 0;             // Leaves that the graph leads to, without a gradient yet.
  std::size_t missing_ = 0;             // Trained leaves without a gradient yet.
  at::Tensor slot_, flat_;              // {numel}, reduce type: under way.
  at::Tensor kept_;                     // {numel}, master type.
  at::Tensor slice_;                    // {slice_numel}, master type: local.grad() lies in it.
  at::Tensor received_;                 // {slice_numel}, reduce type: `slice_`, or part of `flat_`.
  Work work_;
  bool launched_ = false;
};

}  // namespace accelerate::detail
