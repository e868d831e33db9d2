#include "accelerate/comm/shared_memory/shared_group.h"

#include <sched.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "accelerate/comm/shared_memory/process_fork.h"

namespace accelerate::detail {
namespace {

// Long enough for a peer that is about to come, short beside what sleeping and waking cost.
constexpr std::chrono::microseconds kSpin{50};

std::string mine_key(int rank) {
  return "shared_memory/" + std::to_string(rank);
}

void set(c10d::Store& store, const std::string& key, const nlohmann::json& value) {
  const std::string text = value.dump();
  store.set(key, std::vector<std::uint8_t>(text.begin(), text.end()));
}

nlohmann::json get(c10d::Store& store, const std::string& key) {
  const auto bytes = store.get(key);
  return nlohmann::json::parse(bytes.begin(), bytes.end());
}

// The others wait for it, so they learn when there is none.
SharedArena::Block memory_for(int size, LocalPeers& peers, c10d::Store& store) {
  try {
    return peers.arena()->allocate(ControlBlock::bytes_for(size));
  } catch (const CommError& error) {
    set(store, mine_key(0), {{"error", error.what()}});
    throw;
  }
}

std::vector<int> own_cores() {
  cpu_set_t allowed;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  return cores;
}

// Blocks at which some rank may still look.
class Retired {
 public:
  void add(SharedArena::Block memory, const ControlBlock& block) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back({std::move(memory), block});
    std::erase_if(blocks_, [](const Entry& entry) { return is_deserted(entry.block); });
  }

 private:
  struct Entry {
    SharedArena::Block memory;
    ControlBlock block;
  };
  static bool is_deserted(const ControlBlock& block) {
    for (int rank = 0; rank < block.size(); ++rank) {
      if (block.lines(rank).gone.load(std::memory_order_acquire) == 0) return false;
    }
    return true;
  }

  std::mutex mutex_;
  std::list<Entry> blocks_;
};

Retired& retired() {
  static auto* const blocks = new Retired();  // Outlives whatever ends with the program.
  return *blocks;
}

class PeersOfGroup final : public GroupPeers {
 public:
  PeersOfGroup(std::shared_ptr<LocalPeers> peers, std::vector<int> index)
      : peers_(std::move(peers)), index_(std::move(index)) {}

  bool is_alive(int rank) const noexcept override { return peers_->is_alive(at(rank)); }
  std::string describe(int rank) const override { return peers_->describe(at(rank)); }
  std::byte* map(int rank, const SharedExtent& extent) override {
    return peers_->map(at(rank), extent);
  }

 private:
  int at(int rank) const { return index_[static_cast<std::size_t>(rank)]; }
  std::shared_ptr<LocalPeers> peers_;
  std::vector<int> index_;  // Among the host's processes, by rank of the group.
};

}  // namespace

SharedGroup::SharedGroup(c10d::Store& store, int rank, int size,
                         const std::shared_ptr<LocalPeers>& peers)
    : peers_(peers), rank_(rank) {
  nlohmann::json mine = {{"index", peers->index()}, {"cores", own_cores()}};
  if (rank == 0) {
    memory_ = memory_for(size, *peers, store);
    ControlBlock::begin(memory_.data(), size);
    const SharedExtent& extent = memory_.extent();
    mine["block"] = {extent.segment_offset, extent.segment_bytes, extent.offset, extent.bytes};
  }
  set(store, mine_key(rank), mine);
  std::vector<bool> cores(CPU_SETSIZE);
  SharedExtent extent;
  for (int peer = 0; peer < size; ++peer) {
    const auto theirs = get(store, mine_key(peer));
    if (theirs.contains("error")) {
      throw CommError("rank " + std::to_string(peer) +
                      " has no memory for the group: " + theirs.at("error").get<std::string>());
    }
    index_.push_back(theirs.at("index"));
    for (const int core : theirs.at("cores")) cores.at(static_cast<std::size_t>(core)) = true;
    if (peer != 0) continue;
    const auto& where = theirs.at("block");
    extent = {where.at(0), where.at(1), where.at(2), where.at(3)};
  }
  // Others of the host may share the cores of a small group.
  const auto available =
      std::min<std::int64_t>(std::count(cores.begin(), cores.end(), true),
                             sysconf(_SC_NPROCESSORS_ONLN) - peers->size() + size);
  block_ = std::make_unique<ControlBlock>(peers->map(index_.front(), extent), size);
  engine_ = std::make_unique<Engine>(
      *block_, rank, std::make_unique<PeersOfGroup>(peers, index_),
      available >= size ? std::chrono::nanoseconds(kSpin) : std::chrono::nanoseconds(0));
}

SharedGroup::~SharedGroup() {
  engine_->leave();
  if (forked()) {  // Its destructor would wait for a thread that only the parent has.
    (void)engine_.release();
    return;
  }
  block_->lines(rank_).gone.store(1, std::memory_order_release);
  if (memory_) retired().add(std::move(memory_), *block_);
}

}  // namespace accelerate::detail
