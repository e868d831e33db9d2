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

/// The unit that a rank gathers next; nullopt when the rank does not know.
using Promise = std::optional<std::size_t>;

class GatherTransport {
 public:
  GatherTransport() = default;
  virtual ~GatherTransport() = default;
  GatherTransport(const GatherTransport&) = delete;
  GatherTransport& operator=(const GatherTransport&) = delete;

  /// Gives all units memory for this rank's slices. [collective]
  virtual void adopt(Units& units) = 0;
  /// Begins to bring the unit's full values into `slot`, {full_bytes} bytes. `next`: the unit that
  /// this rank will ask for afterwards.
  virtual void start(const Unit& unit, const at::Tensor& slot, Promise next) = 0;
  /// Waits until the values are there.
  virtual void finish(const Unit& unit) = 0;
  virtual void begin_pass() {}
  /// Says that this rank gathers no more in this pass of `kind`. A forward is over when all ranks
  /// have said so: throws CommError when a rank left it, UsageError when a rank gathers more.
  virtual void end_pass(PassKind) {}
  /// As end_pass(), when an exception ends the pass on this rank. The other ranks learn of it in
  /// their end_pass() or next gather.
  virtual void leave_pass(PassKind) {}

  /// Whether a rank may gather at any time, also what the other ranks do not gather.
  [[nodiscard]] virtual bool is_one_sided() const = 0;
  /// Whether values come while this rank computes, so that it pays to start ahead of time.
  [[nodiscard]] virtual bool comes_meanwhile() const { return !is_one_sided(); }
  [[nodiscard]] virtual at::Tensor empty(std::size_t bytes) const = 0;

  virtual void begin_update() = 0;
  /// `updates`: the number of updates of the model, which must be the same on all ranks.
  virtual void end_update(std::int64_t updates) = 0;
};

/// Returns a transport for ranks of one host on the CPU. Slices lie in memory that the peers read:
/// ranks need not agree on anything, and none waits for another to gather. [collective] Throws
/// CommError when memory is lacking.
[[nodiscard]] std::unique_ptr<GatherTransport> one_sided_transport(
    std::shared_ptr<Communicator> group);

/// Returns a transport that all-gathers, for any group and device. Ranks must gather the same units
/// in the same order, which is checked before anything is sent. With each gather every rank
/// announces the unit it gathers next, and how often it has updated the model. Where ranks differ,
/// all get a UsageError that names the ranks and their units or counts. A slice that lives in a file
/// is read when its unit is started, and sent when the unit is finished.
[[nodiscard]] std::unique_ptr<GatherTransport> collective_transport(
    std::shared_ptr<Communicator> group);

}  // namespace accelerate::detail
