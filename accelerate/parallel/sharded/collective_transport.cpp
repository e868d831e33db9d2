#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/sharded/gather_transport.h"

namespace accelerate::detail {
namespace {

constexpr std::int64_t kUnknown = -1;

// What every rank says that it gathers next; on its way while the present gather is.
struct Announcement {
  at::Tensor mine, all;
  Work work;
};

class CollectiveTransport final : public GatherTransport {
 public:
  explicit CollectiveTransport(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}

  void adopt(Units& units) override {
    units_ = &units;
    for (auto& unit : units) {
      unit->set_slice(
          at::zeros({unit->layout().slice_numel()},
                    at::TensorOptions(unit->types().compute).device(unit->spec().master_device)));
    }
  }

  void start(const Unit& unit, const at::Tensor& slot, Promise next) override {
    agree_on(unit);
    launch(unit, slot, next);
  }
  void finish(const Unit& unit) override {
    if (auto work = std::exchange(works_.at(unit.index), {})) work->wait();
  }

  // What was promised is kept, for the others are waiting for it.
  void end_pass() override {
    if (const auto promised = settle_announcement()) keep(*promised, std::nullopt);
  }

  // A rank that has the whole model itself asks nobody.
  [[nodiscard]] bool is_one_sided() const override { return group_->size() == 1; }
  [[nodiscard]] at::Tensor empty(std::size_t bytes) const override {
    const auto options = at::TensorOptions(at::kByte).device(units_->front()->spec().device);
    return group_->empty({static_cast<std::int64_t>(bytes)}, options);
  }
  void begin_update() override {}
  void end_update() override {
    for (auto& unit : *units_) unit->publish();
  }

 private:
  void launch(const Unit& unit, const at::Tensor& slot, Promise next) {
    works_.resize(units_->size());
    const at::Tensor full =
        slot.narrow(0, 0, static_cast<std::int64_t>(unit.full_bytes())).view(unit.types().compute);
    works_[unit.index] = group_->all_gather(full, unit.slice.to(full.device()));
    announce(next);
  }

  void announce(Promise next) {
    Announcement announcement;
    announcement.mine = number(next ? static_cast<std::int64_t>(*next) : kUnknown);
    announcement.all = announcement.mine.new_empty({group_->size()});
    announcement.work = group_->all_gather(announcement.all, announcement.mine);
    announced_ = std::move(announcement);
  }

  // The unit that all ranks, this one too, have said they gather next.
  Promise settle_announcement() {
    if (!announced_) return std::nullopt;
    auto announcement = std::move(*std::exchange(announced_, std::nullopt));
    announcement.work.wait();
    require_equal(announcement.all);
    const auto next = announcement.mine.item<std::int64_t>();
    return next == kUnknown ? Promise() : Promise(static_cast<std::size_t>(next));
  }

  void agree_on(const Unit& unit) {
    const auto promised = settle_announcement();
    if (promised == Promise(unit.index)) return;
    if (promised) {
      keep(*promised, unit.index);
      if (settle_announcement() == Promise(unit.index)) return;
    }
    ask(unit);
  }

  // Gathers for the sake of the others.
  void keep(std::size_t promised, Promise next) {
    const Unit& unit = *(*units_)[promised];
    launch(unit, empty(unit.full_bytes()), next);
    finish(unit);
  }

  [[nodiscard]] at::Tensor number(std::int64_t value) const {
    return at::full({1}, value,
                    at::TensorOptions(at::kLong).device(units_->front()->spec().device));
  }

  void ask(const Unit& unit) {
    const at::Tensor mine = number(static_cast<std::int64_t>(unit.index));
    const at::Tensor all = mine.new_empty({group_->size()});
    group_->all_gather(all, mine).wait();
    require_equal(all);
  }

  [[nodiscard]] std::string name_of(std::int64_t index) const {
    return index == kUnknown ? "no unit that it knows of"
                             : (*units_)[static_cast<std::size_t>(index)]->describe();
  }

  void require_equal(const at::Tensor& heard) const {
    const at::Tensor all = heard.cpu();
    const auto* first = all.const_data_ptr<std::int64_t>();
    for (int rank = 1; rank < group_->size(); ++rank) {
      if (first[rank] == first[0]) continue;
      throw UsageError("rank 0 is about to gather " + name_of(first[0]) + " and rank " +
                       std::to_string(rank) + " " + name_of(first[rank]) +
                       ": across hosts all ranks run the same parts of a sharded model in the same "
                       "order. For what one rank does alone (a norm to be logged, an evaluation) "
                       "open summon_full_params() on all ranks, or run it on all of them");
    }
  }

  std::shared_ptr<Communicator> group_;
  Units* units_ = nullptr;
  std::vector<std::optional<Work>> works_;  // Under way, by unit.
  std::optional<Announcement> announced_;
};

}  // namespace

std::unique_ptr<GatherTransport> collective_transport(std::shared_ptr<Communicator> group) {
  return std::make_unique<CollectiveTransport>(std::move(group));
}

}  // namespace accelerate::detail
