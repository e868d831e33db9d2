// Full values that are gathered when an operator first touches them, and released when other units
// are needed.
//
// The root unit stays for a whole pass. Of the other units the two that were touched last stay. One
// more is on its way when the order of the last pass of the same kind tells which comes next. Units
// that an operator uses stay until the user's call is over, however many units that takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "accelerate/launch/config/enums.h"
#include "accelerate/parallel/sharded/full_parameters.h"
#include "accelerate/parallel/sharded/gather_transport.h"
#include "accelerate/parallel/sharded/slot_pool.h"
#include "accelerate/tensor/compat/lent_storage.h"

namespace accelerate::detail {

struct GatheringOptions {
  /// false: gathered units stay until the backward is over.
  bool reshard_after_forward = true;
  BackwardPrefetch backward_prefetch = BackwardPrefetch::NO_PREFETCH;
  bool forward_prefetch = false;
  int rank = 0;  ///< For messages.
};

class GatheredParameters final : public FullParameters {
 public:
  GatheredParameters(std::unique_ptr<GatherTransport> transport, GatheringOptions options);

  void adopt(Units& units) override;
  [[nodiscard]] bool gathers_together() const override { return !transport_->is_one_sided(); }
  [[nodiscard]] bool keeps(const Unit& unit) const override;
  void begin_pass(PassKind kind) override;
  void end_pass() override;
  void leave_pass() noexcept override;
  void after_gradients(const Unit& unit) override;
  void release_all() override;
  void begin_update() override;
  void end_update(std::int64_t updates) override { transport_->end_update(updates); }
  [[nodiscard]] std::size_t bytes() const override { return slots_.bytes(); }
  [[nodiscard]] std::size_t peak_bytes() const override { return slots_.peak_bytes(); }

 private:
  static constexpr std::size_t kStaying = 2;  // Units besides the root.

  enum class Presence { absent, coming, there };
  struct Place {
    Presence presence = Presence::absent;
    at::Tensor slot;
    std::uint64_t last_touch = 0;
    std::uint64_t last_call = 0;  // The user's call that touched it last.
  };

  void touch(Unit& unit, const compat::OperatorUse& use);
  void fetch(Unit& unit, const compat::OperatorUse& use);
  void start(Unit& unit);
  void finish(Unit& unit);
  void release(Unit& unit);
  void make_room(const compat::OperatorUse& use);
  void prefetch();
  void fail_pass();
  [[nodiscard]] bool prefetches_after_touch() const;
  [[nodiscard]] Promise planned(std::size_t position) const;
  void require_pass(const Unit& unit, const compat::OperatorUse& use) const;
  [[nodiscard]] std::string absence_of(const Unit& unit) const;

  // Operators of a pass run on several threads: autograd's on GPUs, and those of torch.jit.fork. A
  // unit that one thread uses may be released by another.
  mutable std::recursive_mutex mutex_;
  std::unique_ptr<GatherTransport> transport_;
  GatheringOptions options_;
  SlotPool slots_;
  Units* units_ = nullptr;
  std::vector<Place> places_;
  std::uint64_t touches_ = 0;
  std::optional<PassKind> pass_;
  std::thread::id runner_;                         // The thread that began it.
  bool pass_failed_ = false;                       // A unit could not be gathered in this pass.
  std::array<std::vector<std::size_t>, 3> plans_;  // By kind: units of the last such pass.
  std::vector<std::size_t> gathered_;              // Units of this pass, in order.
  compat::OperatorWatch watch_;
};

}  // namespace accelerate::detail
