// The collectives of a hierarchy, each a pipeline over both levels: while the leaders exchange one
// chunk with other hosts, the ranks of a host reduce the next chunk. One thread of each rank runs
// them, in the same order on all ranks. Tensors are plain memory, without autograd.
//
// Bytes that a leader sends to other hosts; N: bytes of a rank's input, H: number of hosts, L:
// number of ranks on the largest host.
//   all_reduce      2N(H-1)/H; N(H-1) for chunks up to 16 KiB, which saves a round trip
//   reduce_scatter  N(H-1)/H, if all hosts have L ranks; smaller hosts are padded to L
//   all_gather      NL(H-1)
//   broadcast       as in the level between the hosts
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "accelerate/base/error.h"
#include "accelerate/comm/communicator.h"
#include "accelerate/comm/host_layout.h"

namespace accelerate::detail {

/// One communicator of the hierarchy. Its errors name the level.
class Level {
 public:
  Level(std::shared_ptr<Communicator> communicator, std::string place)
      : communicator_(std::move(communicator)), place_(std::move(place)) {}

  /// Runs call(communicator). A CommError is nested in a CommError that names the level.
  template <typename Call>
  auto operator()(Call call) const {
    try {
      return call(*communicator_);
    } catch (const CommError&) {
      throw_with_context<CommError>("a collective failed " + place_);
    }
  }

  void wait(Work& work) const {
    (*this)([&](Communicator&) { work.wait(); });
  }

  /// Null for the level between hosts on a rank that is not a leader.
  [[nodiscard]] const std::shared_ptr<Communicator>& communicator() const { return communicator_; }

 private:
  std::shared_ptr<Communicator> communicator_;
  std::string place_;
};

struct Levels {
  HostLayout layout;
  Level inside;
  Level between;
  std::int64_t chunk_bytes;
};

/// `tensor` becomes the reduction over all ranks. Sums and products of fp16 and bf16 are in fp32.
void all_reduce_by_host(const Levels& levels, const at::Tensor& tensor, ReduceOp op);

/// `output` becomes this rank's part of the reduction of `input`, which consists of one part per
/// rank. The result has the same bits as all_reduce_by_host if the level inside reduces each
/// element in the same order, whatever the size.
void reduce_scatter_by_host(const Levels& levels, const at::Tensor& output, const at::Tensor& input,
                            ReduceOp op);

/// `output` becomes the inputs in rank order.
void all_gather_by_host(const Levels& levels, const at::Tensor& output, const at::Tensor& input);

/// The `tensor` of rank `source` overwrites the `tensor` of every other rank.
void broadcast_by_host(const Levels& levels, const at::Tensor& tensor, int source);

/// Returns when all ranks have arrived.
void barrier_by_host(const Levels& levels);

}  // namespace accelerate::detail
