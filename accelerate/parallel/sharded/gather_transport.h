// How the slices of a unit come together on a rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/sharded/full_parameters.h"

namespace accelerate::detail {

/// Which unit the next gather is for, as far as a rank knows: nothing when it does not.
using Promise = std::optional<std::size_t>;

class GatherTransport {
 public:
  GatherTransport() = default;
  virtual ~GatherTransport() = default;
  GatherTransport(const GatherTransport&) = delete;
  GatherTransport& operator=(const GatherTransport&) = delete;

  /// Memory for this rank's slices of all units. [collective]
  virtual void adopt(Units& units) = 0;
  /// Begins to bring the unit's full values into `slot`, {full_bytes} bytes; `next` is the unit
  /// that this rank will ask for after it.
  virtual void start(const Unit& unit, const at::Tensor& slot, Promise next) = 0;
  /// Returns when the values are there.
  virtual void finish(const Unit& unit) = 0;
  virtual void begin_pass() {}
  /// No further gather follows in this pass, which is one of `kind`. A forward is over when all
  /// ranks have said so: throws CommError when one left it, UsageError when one gathers more.
  virtual void end_pass(PassKind) {}
  /// The same when an exception ends the pass on this rank: the others are told in theirs.
  virtual void leave_pass(PassKind) {}

  /// Whether a rank may gather what the others do not, whenever it likes.
  [[nodiscard]] virtual bool is_one_sided() const = 0;
  [[nodiscard]] virtual at::Tensor empty(std::size_t bytes) const = 0;

  virtual void begin_update() = 0;
  /// `updates`: how many the model has had, which must be the same on all ranks.
  virtual void end_update(std::int64_t updates) = 0;
};

/// Slices lie in memory that the peers read: ranks need not agree on anything, and none waits for
/// another. For ranks of one host on the CPU. [collective] Throws CommError without memory.
[[nodiscard]] std::unique_ptr<GatherTransport> one_sided_transport(
    std::shared_ptr<Communicator> group);

/// All-gathers, for any group and device. Ranks must gather the same units in the same order, which
/// is found out before anything is sent: with each gather every rank tells which comes next, and
/// how often it has updated the model. Where they differ all of them get a UsageError that names
/// the units, or the counts, and the ranks.
[[nodiscard]] std::unique_ptr<GatherTransport> collective_transport(
    std::shared_ptr<Communicator> group);

}  // namespace accelerate::detail
