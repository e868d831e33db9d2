// Optimizers whose updates are clipped in place of their gradients.
#pragma once

namespace accelerate {

/// A second base of optimizers that turn gradients into updates before they are clipped. An
/// Accelerator calls take_updates() before it clips, so that the norm is that of the updates.
class ClipsUpdates {
 public:
  virtual ~ClipsUpdates() = default;

  /// Whether clipping comes after take_updates(). Otherwise it comes before, as elsewhere.
  [[nodiscard]] virtual bool clips_updates() const = 0;
  /// Writes the update of each parameter into its gradient. The next step() applies what it finds
  /// there. Does nothing if that has happened since the last step. [collective over parts of a
  /// sharded model]
  virtual void take_updates() = 0;
  /// To be called when gradients are dropped: the next ones are gradients again.
  virtual void forget_updates() = 0;

 protected:
  ClipsUpdates() = default;
  ClipsUpdates(const ClipsUpdates&) = default;
  ClipsUpdates& operator=(const ClipsUpdates&) = default;
};

}  // namespace accelerate
