// Makes and keeps the control block of a group.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "accelerate/comm/deadline.h"
#include "accelerate/comm/shared_memory/call_engine.h"
#include "accelerate/comm/shared_memory/peers.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

/// The ranks that make a group, and how they communicate before they share its block.
struct Founding {
  c10d::Store& store;
  int rank = 0;
  int size = 1;
  GroupTimes times;
  /// Called now and then while ranks are awaited; throws when a rank will never come. May be empty.
  const std::function<void()>& look;
};

class SharedGroup {
 public:
  /// Rank 0 makes the block, and the other ranks map it; when this returns, all have. [collective]
  /// Throws CommError.
  SharedGroup(const Founding& founding, std::shared_ptr<LocalPeers> peers);
  /// Leaves the group. The block stays until every rank has left.
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  [[nodiscard]] Engine& engine() { return *engine_; }
  /// Returns the address in this process of `extent` in the memory of `rank` of this group.
  [[nodiscard]] std::byte* map(int rank, const SharedExtent& extent) {
    return engine_->peers().map(rank, extent);
  }
  [[nodiscard]] LocalPeers& peers() { return *peers_; }
  /// As peers(), for objects that keep addresses of mapped memory longer than the group lives.
  [[nodiscard]] const std::shared_ptr<LocalPeers>& shared_peers() const { return peers_; }
  [[nodiscard]] const ControlBlock& block() const { return *block_; }

 private:
  SharedGroup(int rank, std::shared_ptr<LocalPeers> peers)
      : peers_(std::move(peers)), rank_(rank) {}
  void wait_for_all(const Founding& founding);

  std::shared_ptr<LocalPeers> peers_;
  int rank_;
  SharedArena::Block memory_;  // Holds the control block; on rank 0 only.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ControlBlock> block_;
};

}  // namespace accelerate::detail
