// Where the full values of units live: the strategy of a sharded model.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/comm/communicator.h"
#include "accelerate/parallel/inspection.h"
#include "accelerate/parallel/sharded/unit.h"

namespace accelerate {

namespace detail {

using Units = std::vector<std::unique_ptr<Unit>>;

/// What a model is doing. It decides how units are used.
enum class PassKind { forward, evaluation, backward };

/// Calls: adopt() once, then passes, and updates between passes.
class FullParameters {
 public:
  FullParameters() = default;
  virtual ~FullParameters() = default;
  FullParameters(const FullParameters&) = delete;
  FullParameters& operator=(const FullParameters&) = delete;

  /// Gives every unit memory for this rank's slice. The caller then fills in the values and calls
  /// end_update(). [collective]
  virtual void adopt(Units& units) = 0;

  /// Whether all ranks must take part when a unit is gathered.
  [[nodiscard]] virtual bool gathers_together() const { return false; }
  /// Whether the unit's full values are there, and stay until the backward is over.
  [[nodiscard]] virtual bool keeps(const Unit&) const { return true; }

  /// Begin and end a pass, in which operators may ask for units. end_pass() throws CommError when
  /// another rank left its forward with an exception, UsageError when another rank gathers more.
  virtual void begin_pass(PassKind) {}
  virtual void end_pass() {}
  /// To be called when an exception ends the pass: in place of end_pass(), or after it threw. Does
  /// nothing outside of a pass.
  virtual void leave_pass() noexcept {}
  /// To be called when all gradients of a unit have come in a backward.
  virtual void after_gradients(const Unit&) {}
  /// To be called when no full values are needed until the next pass.
  virtual void release_all() {}

  /// Begin and end a change of the slices. Full values must not be read in between. [collective]
  virtual void begin_update() = 0;
  /// `updates`: the number of updates since all ranks were given their slices.
  virtual void end_update(std::int64_t updates) = 0;

  /// Returns why a unit could not be gathered; null if none. Returns a cause only once.
  [[nodiscard]] std::exception_ptr take_failure() noexcept {
    return std::exchange(failure_, nullptr);
  }
  [[nodiscard]] virtual std::size_t bytes() const = 0;
  [[nodiscard]] virtual std::size_t peak_bytes() const { return bytes(); }

  std::function<void(ShardEvent::Kind, const Unit&)> observer;

 protected:
  void tell(ShardEvent::Kind kind, const Unit& unit) const {
    if (observer) observer(kind, unit);
  }
  std::exception_ptr failure_;
};

}  // namespace detail
}  // namespace accelerate
