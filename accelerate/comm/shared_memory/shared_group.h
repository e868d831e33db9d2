// The control block of a group, from its making to its end.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>
#include <vector>

#include "accelerate/comm/shared_memory/engine.h"
#include "accelerate/comm/shared_memory/peers.h"

namespace c10d {
class Store;
}

namespace accelerate::detail {

class SharedGroup {
 public:
  /// The first of the ranks makes the block, the others find it. [collective] Throws CommError.
  SharedGroup(c10d::Store& store, int rank, int size, const std::shared_ptr<LocalPeers>& peers);
  /// The block stays until every rank has left.
  ~SharedGroup();
  SharedGroup(const SharedGroup&) = delete;
  SharedGroup& operator=(const SharedGroup&) = delete;

  [[nodiscard]] Engine& engine() { return *engine_; }
  /// Where `extent` of the memory of `rank`, of this group, lies in this process.
  [[nodiscard]] std::byte* map(int rank, const SharedExtent& extent) {
    return peers_->map(index_[static_cast<std::size_t>(rank)], extent);
  }
  [[nodiscard]] LocalPeers& peers() { return *peers_; }
  [[nodiscard]] const ControlBlock& block() const { return *block_; }

 private:
  std::shared_ptr<LocalPeers> peers_;
  int rank_;
  std::vector<int> index_;     // Of each rank among the host's processes.
  SharedArena::Block memory_;  // Of the first rank.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ControlBlock> block_;
};

}  // namespace accelerate::detail
