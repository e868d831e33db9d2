// The control block of a group, from its making to its end.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "accelerate/comm/shared_memory/engine.h"
#include "accelerate/comm/shared_memory/peers.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

/// Who makes a group, and what they know of each other before they share its block.
struct Founding {
  c10d::Store& store;
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{};
  /// Asked now and then while ranks are awaited; throws when one will never come. May be empty.
  const std::function<void()>& look;
};

class SharedGroup {
 public:
  /// The first of the ranks makes the block, the others find it; when this returns, all have.
  /// [collective] Throws CommError.
  SharedGroup(const Founding& founding, std::shared_ptr<LocalPeers> peers);
  /// The block stays until every rank has left.
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  [[nodiscard]] Engine& engine() { return *engine_; }
  /// Where `extent` of the memory of `rank`, of this group, lies in this process.
  [[nodiscard]] std::byte* map(int rank, const SharedExtent& extent) {
    return engine_->peers().map(rank, extent);
  }
  [[nodiscard]] LocalPeers& peers() { return *peers_; }
  /// The same, for what holds addresses longer than the group lives.
  [[nodiscard]] const std::shared_ptr<LocalPeers>& shared_peers() const { return peers_; }
  [[nodiscard]] const ControlBlock& block() const { return *block_; }

 private:
  SharedGroup(int rank, std::shared_ptr<LocalPeers> peers)
      : peers_(std::move(peers)), rank_(rank) {}
  void wait_for_all(const Founding& founding);

  std::shared_ptr<LocalPeers> peers_;
  int rank_;
  SharedArena::Block memory_;  // Of the first rank.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ControlBlock> block_;
};

}  // namespace accelerate::detail
