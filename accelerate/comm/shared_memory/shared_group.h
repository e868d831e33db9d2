// The control block of a group, from its making to its end.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <memory>

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
  [[nodiscard]] LocalPeers& peers() { return *peers_; }
  [[nodiscard]] const ControlBlock& block() const { return *block_; }

 private:
  std::shared_ptr<LocalPeers> peers_;
  SharedArena::Block memory_;  // Of the first rank.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ControlBlock> block_;
};

}  // namespace accelerate::detail
