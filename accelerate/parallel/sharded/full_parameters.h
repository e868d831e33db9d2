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
#include "accelerate/parallel/sharded/unit.h"

namespace accelerate {

/// What a sharded model did, for tests and for the eye.
struct ShardEvent {
  enum class Kind { gather, prefetch, release, reduce };
  Kind kind;
  std::string unit;
  bool operator==(const ShardEvent&) const = default;
};

/// Bytes of a rank's memory for one model.
struct ShardedMemory {
  std::size_t slice_bytes = 0;      ///< Of parameters: what this rank keeps.
  std::size_t full_bytes = 0;       ///< Of full values that are there now, slots in reserve too.
  std::size_t peak_full_bytes = 0;  ///< The most that there ever were.
  std::size_t gradient_bytes = 0;   ///< Of slices of gradients, and of units on their way.
  std::size_t peak_gradient_bytes = 0;  ///< The most that there ever were.
};

namespace detail {

using Units = std::vector<std::unique_ptr<Unit>>;

/// What a model is doing, which is what decides how units are touched.
enum class PassKind { forward, evaluation, backward };

/// In calls order: adopt() once; then passes, and updates between them.
class FullParameters {
 public:
  FullParameters() = default;
  virtual ~FullParameters() = default;
  FullParameters(const FullParameters&) = delete;
  FullParameters& operator=(const FullParameters&) = delete;

  /// Gives every unit memory for this rank's slice, whose values the caller then fills in, and
  /// ends with end_update(). [collective]
  virtual void adopt(Units& units) = 0;

  /// Whether gathering a unit takes all ranks.
  [[nodiscard]] virtual bool gathers_together() const { return false; }
  /// Whether the unit's full values are there, and stay until the backward is over.
  [[nodiscard]] virtual bool keeps(const Unit&) const { return true; }

  /// Between these two operators may ask for units. The end throws CommError when another rank
  /// left its forward by an exception, UsageError when another rank gathers more.
  virtual void begin_pass(PassKind) {}
  virtual void end_pass() {}
  /// In place of end_pass(), or after it has thrown, when an exception ends the pass; does nothing
  /// outside of a pass.
  virtual void leave_pass() noexcept {}
  /// All gradients of a unit have come in this backward.
  virtual void after_gradients(const Unit&) {}
  /// No full values are needed until the next pass.
  virtual void release_all() {}

  /// Between these two the slices change; full values are not to be read. [collective]
  virtual void begin_update() = 0;
  /// `updates`: how many there have been since all ranks were given their slices.
  virtual void end_update(std::int64_t updates) = 0;

  /// What made a unit fail to come.
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
