#include "accelerate/comm/shared_memory/pages.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/comm/objects.h"
#include "accelerate/comm/shared_memory/kept_memory.h"
#include "accelerate/comm/shared_memory/process_fork.h"
#include "accelerate/comm/shared_memory/shared_group.h"

namespace accelerate {
namespace {

using detail::LocalPeers;
using detail::SharedArena;
using detail::SharedExtent;

using Gone = std::atomic<std::uint8_t>;  // Whether a rank has released the pages.

// The flags of the ranks lie before the pages.
std::size_t header_bytes(std::size_t ranks) {
  constexpr std::size_t kPage = 4096;
  return detail::round_up(ranks * sizeof(Gone), kPage);
}

Gone* flags_at(std::byte* memory) {
  return std::launder(reinterpret_cast<Gone*>(memory));
}

bool is_deserted(const Gone* flags, const LocalPeers& peers, const std::vector<int>& indices) {
  for (std::size_t rank = 0; rank < indices.size(); ++rank) {
    if (flags[rank].load() == 0 && peers.is_alive(indices[rank])) return false;
  }
  return true;
}

// Holds the memory on the first rank. Its destructor keeps the memory until every rank has released
// it or died.
class Owned {
 public:
  Owned(SharedArena::Block block, std::shared_ptr<LocalPeers> peers, std::vector<int> indices)
      : block_(std::move(block)), peers_(std::move(peers)), indices_(std::move(indices)) {
    for (std::size_t rank = 0; rank < indices_.size(); ++rank) {
      new (block_.data() + rank * sizeof(Gone)) Gone(0);
    }
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (detail::forked()) return;
    flags_at(block_.data())[0] = 1;
    detail::keep_until(std::make_shared<SharedArena::Block>(std::move(block_)),
                       [flags = flags_at(block_.data()), peers = peers_, indices = indices_] {
                         return is_deserted(flags, *peers, indices);
                       });
  }

  [[nodiscard]] const SharedExtent& extent() const { return block_.extent(); }
  // To be called when no rank has got the memory, and none will: it counts as released by all.
  void desert() {
    for (std::size_t rank = 0; rank < indices_.size(); ++rank) flags_at(block_.data())[rank] = 1;
  }

 private:
  SharedArena::Block block_;
  std::shared_ptr<LocalPeers> peers_;
  std::vector<int> indices_;  // Places of the ranks among the host's processes.
};

// What a rank's tensor keeps alive.
struct Lease {
  std::shared_ptr<LocalPeers> peers;  // Holds the mapping.
  std::unique_ptr<Owned> owned;       // Set on the first rank only.
  Gone* gone = nullptr;               // This rank's flag.

  ~Lease() {
    if (gone != nullptr && !detail::forked()) gone->store(1);
  }
};

// Makes the pages of a group in several steps. In each step all ranks learn whether any rank
// failed.
class Founders {
 public:
  Founders(Communicator& communicator, detail::SharedGroup& group, std::size_t bytes)
      : communicator_(communicator), group_(group), bytes_(bytes) {}

  at::Tensor found() {
    meet();
    const SharedExtent extent = allocated();
    std::byte* const memory = mapped(extent);
    auto lease = std::make_shared<Lease>();
    lease->peers = group_.shared_peers();
    lease->owned = std::move(owned_);
    lease->gone = flags_at(memory) + communicator_.rank();
    return at::from_blob(
        memory + header_bytes(indices_.size()), {static_cast<std::int64_t>(bytes_)},
        [lease = std::move(lease)](void*) mutable { lease.reset(); }, at::kByte);
  }

 private:
  // Exchanges the requested sizes and the places on the host.
  void meet() {
    using Asked = std::array<std::uint64_t, 2>;
    const Asked mine = {bytes_, static_cast<std::uint64_t>(group_.peers().index())};
    const auto asked = gather_object(communicator_, mine);
    for (std::size_t rank = 0; rank < asked.size(); ++rank) {
      const auto [bytes, index] = asked[rank];
      if (bytes != asked[0][0]) {
        throw CommError("SharedPages: rank 0 asks for " + std::to_string(asked[0][0]) +
                        " bytes and rank " + std::to_string(rank) + " for " +
                        std::to_string(bytes));
      }
      indices_.push_back(static_cast<int>(index));
    }
  }

  // Returns where the memory of the first rank is.
  SharedExtent allocated() {
    nlohmann::json answer;
    if (communicator_.rank() == 0) answer = allocate();
    answer = broadcast_object(communicator_, answer);
    if (answer.is_string()) {
      throw CommError("SharedPages: rank 0 has no memory: " + answer.get<std::string>());
    }
    return {answer.at(0), answer.at(1), answer.at(2), answer.at(3)};
  }

  nlohmann::json allocate() {
    try {
      const std::size_t header = header_bytes(indices_.size());
      if (bytes_ > SIZE_MAX / 2 - header) {
        throw CommError(std::to_string(bytes_) + " bytes are more than any machine has");
      }
      auto block = group_.peers().arena()->allocate(header + bytes_);
      owned_ = std::make_unique<Owned>(std::move(block), group_.shared_peers(), indices_);
      const SharedExtent& extent = owned_->extent();
      return {extent.segment_offset, extent.segment_bytes, extent.offset, extent.bytes};
    } catch (const Error& error) {
      return error.what();
    }
  }

  std::byte* mapped(const SharedExtent& extent) {
    std::byte* memory = nullptr;
    std::string failure;
    try {
      memory = group_.map(0, extent);
    } catch (const Error& error) {
      failure = error.what();
    }
    const auto failures = gather_object(communicator_, failure);
    for (std::size_t rank = 0; rank < failures.size(); ++rank) {
      if (failures[rank].empty()) continue;
      if (owned_) owned_->desert();
      throw CommError("SharedPages: rank " + std::to_string(rank) +
                      " cannot map the memory of rank 0: " + failures[rank]);
    }
    return memory;
  }

  Communicator& communicator_;
  detail::SharedGroup& group_;
  std::size_t bytes_;
  std::vector<int> indices_;
  std::unique_ptr<Owned> owned_;  // Set on the first rank only.
};

}  // namespace

bool SharedPages::possible(const Communicator& communicator) {
  return communicator.size() == 1 || communicator.shared_group() != nullptr;
}

std::shared_ptr<SharedPages> SharedPages::create(Communicator& communicator, std::size_t bytes) {
  detail::refuse_after_fork("SharedPages::create");
  if (const auto group = communicator.shared_group()) {
    return std::shared_ptr<SharedPages>(
        new SharedPages(Founders(communicator, *group, bytes).found()));
  }
  if (communicator.size() > 1) {
    throw UsageError("SharedPages need ranks that share memory, and this group talks through " +
                     std::string(communicator.backend()));
  }
  return std::shared_ptr<SharedPages>(
      new SharedPages(at::empty({static_cast<std::int64_t>(bytes)}, at::kByte)));
}

}  // namespace accelerate
