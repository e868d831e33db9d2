#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/parallel/sharded/gather_transport.h"
#include "accelerate/parallel/sharded/update_count.h"

namespace accelerate::detail {
namespace {

// What a rank may announce in place of its next unit.
constexpr std::int64_t kUnknown = -1, kEnd = -2, kLeftForward = -3, kLeftBackward = -4;

bool has_left(std::int64_t next) {
  return next <= kLeftForward;
}

// Numbers in an announcement: the unit that a rank gathers next, and how often it has updated the
// model.
constexpr std::int64_t kWords = 2;

// An announcement under way, while the rank continues; `next` is what this rank announces.
struct Announcement {
  std::int64_t next;
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
      // The group reports the cause to its next user.
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
    auto work = std::exchange(works_.at(unit.index), {});
    if (!work) return;
    over_ = true;
    work->wait();
    over_ = false;
  }

  void begin_pass() override { over_ = false; }

  // Announces that this rank is through, which answers a rank that is about to gather more and
  // would wait for ever. Does not wait for the end of a backward: a rank that leaves a backward
  // ends the group.
  void end_pass(PassKind kind) override {
    if (units_->empty()) return;
    while (const auto promised = settle_announcement()) keep(*promised, kUnknown);
    announce(kEnd);
    if (kind != PassKind::backward) (void)settle_announcement();
  }

  // Announces that this rank has left, in place of its next unit. The other ranks then announce
  // nothing more either.
  void leave_pass(PassKind kind) override {
    if (units_->empty() || over_) return;
    const auto left = kind == PassKind::backward ? kLeftBackward : kLeftForward;
    const auto promised = settle_announcement();
    promised ? keep(*promised, left) : announce(left);
  }

  // A rank that has the whole model needs no other rank.
  [[nodiscard]] bool is_one_sided() const override { return group_->size() == 1; }
  [[nodiscard]] at::Tensor empty(std::size_t bytes) const override {
    const auto options = at::TensorOptions(at::kByte).device(units_->front()->spec().device);
    return group_->empty({static_cast<std::int64_t>(bytes)}, options);
  }
  void begin_update() override {}
  void end_update(std::int64_t updates) override {
    updates_ = updates;
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
    const at::Tensor mine = statement(next);
    const at::Tensor all = mine.new_empty({group_->size(), kWords});
    announced_ = Announcement{next, mine, all, group_->all_gather(all, mine)};
  }

  // Returns the unit that all ranks, this one included, have announced as their next; nullopt if
  // none.
  Promise settle_announcement() {
    if (!announced_) return std::nullopt;
    auto announcement = std::move(*std::exchange(announced_, std::nullopt));
    hear(announcement);
    const auto next = announcement.next;
    return next < 0 ? Promise() : Promise(static_cast<std::size_t>(next));
  }

  // All ranks learn of a disagreement from the same announcement, and none announces anything more
  // in that pass. A rank that has left a pass receives it in its next pass, and ignores it there.
  void hear(Announcement& announcement) {
    over_ = true;
    announcement.work.wait();
    if (!has_left(announcement.next)) require_equal(announcement.all);
    over_ = false;
  }

  void agree_on(const Unit& unit) {
    const auto promised = settle_announcement();
    if (promised == Promise(unit.index)) return;
    if (!promised) return ask(unit);
    keep(*promised, number_of(unit.index));
    (void)settle_announcement();
  }

  // Gathers a unit that this rank announced, because the other ranks are waiting for it.
  void keep(std::size_t promised, std::int64_t next) {
    const Unit& unit = *(*units_)[promised];
    launch(unit, empty(unit.full_bytes()), next);
    finish(unit);
  }

  [[nodiscard]] at::Tensor statement(std::int64_t next) const {
    return at::tensor({next, updates_}, at::kLong).to(units_->front()->spec().device);
  }

  void ask(const Unit& unit) {
    announce(number_of(unit.index));
    (void)settle_announcement();
  }

  [[nodiscard]] std::string intention(std::int64_t next) const {
    if (next == kEnd) return "is through with its forward or backward";
    if (next == kUnknown) return "knows of no unit to gather next";
    if (next == kLeftForward) return "left its forward by an exception";
    if (next == kLeftBackward) return "left its backward by an exception";
    return "is about to gather " + (*units_)[static_cast<std::size_t>(next)]->describe();
  }

  void require_equal(const at::Tensor& heard) const {
    const at::Tensor all = heard.cpu();
    const auto* said = all.const_data_ptr<std::int64_t>();
    std::vector<std::int64_t> next, updates;
    for (int rank = 0; rank < group_->size(); ++rank, said += kWords) {
      next.push_back(said[0]);
      updates.push_back(said[1]);
    }
    require_all_present(next);
    require_same(next);
    require_equal_updates(updates);
  }

  void require_all_present(const std::vector<std::int64_t>& next) const {
    const auto leaver = std::ranges::find_if(next, has_left);
    if (leaver == next.end()) return;
    throw CommError("rank " + std::to_string(leaver - next.begin()) + " " + intention(*leaver) +
                    ", so the other ranks lose that batch too");
  }

  void require_same(const std::vector<std::int64_t>& next) const {
    for (std::size_t rank = 1; rank < next.size(); ++rank) {
      if (next[rank] == next[0]) continue;
      throw UsageError("rank 0 " + intention(next[0]) + " and rank " + std::to_string(rank) + " " +
                       intention(next[rank]) +
                       ": across hosts all ranks run the same parts of a sharded model in the same "
                       "order. For what one rank does alone (a norm to be logged, an evaluation) "
                       "open summon_full_params() on all ranks, or run it on all of them");
    }
  }

  std::shared_ptr<Communicator> group_;
  Units* units_ = nullptr;
  std::vector<std::optional<Work>> works_;  // Under way, by unit.
  std::optional<Announcement> announced_;
  std::int64_t updates_ = 0;
  bool over_ = false;  // An exchange has failed in this pass.
};

}  // namespace

std::unique_ptr<GatherTransport> collective_transport(std::shared_ptr<Communicator> group) {
  return std::make_unique<CollectiveTransport>(std::move(group));
}

}  // namespace accelerate::detail
