#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/sharded/gather_transport.h"

namespace accelerate::detail {
namespace {

// What a rank may say instead of the unit that it gathers next.
constexpr std::int64_t kUnknown = -1, kEnd = -2, kFailed = -3;

// What every rank says that it does next; on its way while the rank goes on.
struct Announcement {
  at::Tensor mine, all;
  Work work;
};

class CollectiveTransport final : public GatherTransport {
 public:
  explicit CollectiveTransport(std::shared_ptr<Communicator> group) : group_(std::move(group)) {}

  // A group ends cleanly when nothing is under way.
  ~CollectiveTransport() override {
    if (!announced_ || std::uncaught_exceptions() > 0) return;
    try {
      announced_->work.wait();
    } catch (const std::exception&) {
      // The group says why to whoever uses it next.
    }
  }

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
    launch(unit, slot, next ? number_of(*next) : kUnknown);
  }
  void finish(const Unit& unit) override {
    if (auto work = std::exchange(works_.at(unit.index), {})) work->wait();
  }

  // Every rank says that it is through, which answers one that is about to gather more and would
  // wait for ever: also a rank that fails here, for the others count on as many words from it.
  void end_pass() override {
    const bool unwinds = std::uncaught_exceptions() > 0;  // The program's own exception.
    std::exception_ptr failure;
    try {
      while (const auto promised = settle_announcement())
        keep(*promised, unwinds ? kFailed : kUnknown);
    } catch (...) {
      failure = std::current_exception();
    }
    announce(unwinds ? kFailed : kEnd);
    if (failure) std::rethrow_exception(failure);
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
  static std::int64_t number_of(std::size_t unit) { return static_cast<std::int64_t>(unit); }

  void launch(const Unit& unit, const at::Tensor& slot, std::int64_t next) {
    works_.resize(units_->size());
    const at::Tensor full =
        slot.narrow(0, 0, static_cast<std::int64_t>(unit.full_bytes())).view(unit.types().compute);
    works_[unit.index] = group_->all_gather(full, unit.slice.to(full.device()));
    announce(next);
  }

  void announce(std::int64_t next) {
    Announcement announcement;
    announcement.mine = scalar(next);
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
    return next < 0 ? Promise() : Promise(static_cast<std::size_t>(next));
  }

  void agree_on(const Unit& unit) {
    const auto promised = settle_announcement();
    if (promised == Promise(unit.index)) return;
    if (!promised) return ask(unit);
    keep(*promised, number_of(unit.index));
    (void)settle_announcement();
  }

  // Gathers for the sake of the others, who are waiting for it.
  void keep(std::size_t promised, std::int64_t next) {
    const Unit& unit = *(*units_)[promised];
    launch(unit, empty(unit.full_bytes()), next);
    finish(unit);
  }

  [[nodiscard]] at::Tensor scalar(std::int64_t value) const {
    return at::full({1}, value,
                    at::TensorOptions(at::kLong).device(units_->front()->spec().device));
  }

  void ask(const Unit& unit) {
    const at::Tensor mine = scalar(number_of(unit.index));
    const at::Tensor all = mine.new_empty({group_->size()});
    group_->all_gather(all, mine).wait();
    require_equal(all);
  }

  [[nodiscard]] std::string intention(std::int64_t next) const {
    if (next == kEnd) return "is through with its forward or backward";
    if (next == kUnknown) return "knows of no unit to gather next";
    if (next == kFailed) return "left its forward by an exception";
    return "is about to gather " + (*units_)[static_cast<std::size_t>(next)]->describe();
  }

  void require_equal(const at::Tensor& heard) const {
    const at::Tensor all = heard.cpu();
    const auto* first = all.const_data_ptr<std::int64_t>();
    for (int rank = 1; rank < group_->size(); ++rank) {
      if (first[rank] == first[0]) continue;
      const std::string found = "rank 0 " + intention(first[0]) + " and rank " +
                                std::to_string(rank) + " " + intention(first[rank]);
      if (first[0] == kFailed || first[rank] == kFailed) throw CommError(found);
      throw UsageError(found +
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
