#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "accelerate/base/bytes.h"
#include "accelerate/comm/shared_memory/window.h"
#include "accelerate/parallel/sharded/gather_transport.h"

namespace accelerate::detail {
namespace {

class OneSidedTransport final : public GatherTransport {
 public:
  explicit OneSidedTransport(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}

  void adopt(Units& units) override {
    units_ = &units;
    std::size_t bytes = 0;
    for (const auto& unit : units) {
      offsets_.push_back(bytes);
      bytes += round_up(unit->slice_bytes(), kUnitAlignment);
    }
    window_ = SharedWindow::create(*group_, bytes);
    window_->open();
    for (std::size_t i = 0; i < units.size(); ++i) {
      Unit& unit = *units[i];
      unit.set_slice(window_->local()
                         .narrow(0, static_cast<std::int64_t>(offsets_[i]),
                                 static_cast<std::int64_t>(unit.slice_bytes()))
                         .view(unit.types().compute));
    }
  }

  // The processor that waits for the copy makes it, so beginning early would gain nothing.
  void start(const Unit& unit, const at::Tensor& slot, Promise) override {
    const auto bytes = static_cast<std::int64_t>(unit.slice_bytes());
    for (int rank = 0; rank < group_->size(); ++rank) {
      window_->read(rank, offsets_[unit.index], slot.narrow(0, rank * bytes, bytes), epoch_);
    }
  }
  void finish(const Unit&) override {}
  [[nodiscard]] bool is_one_sided() const override { return true; }
  [[nodiscard]] at::Tensor empty(std::size_t bytes) const override {
    return at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  }

  // After the barrier no rank needs the old values. A rank that wants the new values waits for
  // them.
  void begin_update() override {
    group_->barrier();
    window_->open();
  }
  void end_update(std::int64_t) override {
    for (auto& unit : *units_) unit->publish();
    window_->publish(++epoch_);
  }

 private:
  std::shared_ptr<Communicator> group_;
  Units* units_ = nullptr;
  std::vector<std::size_t> offsets_;  // Offset of each unit's slice in the window.
  std::shared_ptr<SharedWindow> window_;
  std::uint32_t epoch_ = 0;
};

}  // namespace

std::unique_ptr<GatherTransport> one_sided_transport(std::shared_ptr<Communicator> group) {
  return std::make_unique<OneSidedTransport>(std::move(group));
}

}  // namespace accelerate::detail
