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
    works_.resize(units.size());
    for (auto& unit : units) {
      const auto options =
          at::TensorOptions(unit->types().compute).device(unit->spec().master_device);
      unit->set_slice(unit->storage.slice.defined()
                          ? unit->storage.slice
                          : at::zeros({unit->layout().slice_numel()}, options));
      reads_files_ = reads_files_ || unit->storage.slice.defined();
    }
  }

  // What comes from a file is read first, and gathered when the unit is finished or the next one
  // started: sooner this rank would have to wait for its disk.
  void start(const Unit& unit, const at::Tensor& slot, Promise next) override {
    launch_read();
    agree_on(unit);
    const auto promised = next ? number_of(*next) : kUnknown;
    if (!unit.storage.slice.defined()) return launch(unit, slot, unit.slice, promised);
    reading_ = begin_read(unit, slot, promised);
  }
  void finish(const Unit& unit) override {
    if (reading_ && reading_->unit == &unit) launch_read();
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
    launch_read();
    while (const auto promised = settle_announcement()) keep(*promised, kUnknown);
    announce(kEnd);
    if (kind != PassKind::backward) (void)settle_announcement();
  }

  // Announces that this rank has left, in place of its next unit. The other ranks then announce
  // nothing more either.
  void leave_pass(PassKind kind) override {
    if (units_->empty() || over_) return;
    launch_read();
    const auto left = kind == PassKind::backward ? kLeftBackward : kLeftForward;
    const auto promised = settle_announcement();
    promised ? keep(*promised, left) : announce(left);
  }

  // A rank that has the whole model needs no other rank.
  [[nodiscard]] bool is_one_sided() const override { return group_->size() == 1; }
  [[nodiscard]] bool comes_meanwhile() const override { return reads_files_ || !is_one_sided(); }
  [[nodiscard]] at::Tensor empty(std::size_t bytes) const override {
    if (reads_files_ && group_->size() == 1 && units_->front()->spec().device.is_cpu())
      return aligned_memory(bytes);
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

  // The slice of a unit on its way from a file.
  struct Reading {
    const Unit* unit;
    at::Tensor slot;
    std::int64_t next;
    at::Tensor slice;   // In memory.
    Transfer transfer;  // Last: its destructor waits.
  };

  static at::Tensor full_in(const at::Tensor& slot, const Unit& unit) {
    return slot.narrow(0, 0, static_cast<std::int64_t>(unit.full_bytes()))
        .view(unit.types().compute);
  }

  // A rank that has the whole unit reads it to where it is used.
  [[nodiscard]] Reading begin_read(const Unit& unit, const at::Tensor& slot, std::int64_t next) {
    const bool in_place = group_->size() == 1 && slot.is_cpu();
    const auto memory = in_place ? slot : aligned_memory(unit.slice_bytes());
    const auto slice = memory.narrow(0, 0, static_cast<std::int64_t>(unit.slice_bytes()))
                           .view(unit.types().compute);
    return {&unit, slot, next, slice, unit.storage.store->read(unit.slice, slice.data_ptr())};
  }

  // A rank whose disk fails cannot send what the others wait for, so the group ends.
  void launch_read() {
    if (!reading_) return;
    Reading reading = std::move(*std::exchange(reading_, std::nullopt));
    try {
      reading.transfer.wait();
    } catch (const std::exception& error) {
      if (group_->size() > 1) group_->abort(describe(error));
      throw;
    }
    if (reading.slice.data_ptr() == reading.slot.data_ptr()) return;
    launch(*reading.unit, reading.slot, reading.slice, reading.next);
  }

  void launch(const Unit& unit, const at::Tensor& slot, const at::Tensor& slice,
              std::int64_t next) {
    const at::Tensor full = full_in(slot, unit);
    works_[unit.index] = group_->all_gather(full, slice.to(full.device()));
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
    const at::Tensor slot = empty(unit.full_bytes());
    if (!unit.storage.slice.defined()) {
      launch(unit, slot, unit.slice, next);
    } else {
      reading_ = begin_read(unit, slot, next);
    }
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
  std::optional<Reading> reading_;
  bool reads_files_ = false;
  std::int64_t updates_ = 0;
  bool over_ = false;  // An exchange has failed in this pass.
};

}  // namespace

std::unique_ptr<GatherTransport> collective_transport(std::shared_ptr<Communicator> group) {
  return std::make_unique<CollectiveTransport>(std::move(group));
}

}  // namespace accelerate::detail
