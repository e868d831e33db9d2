// The collectives of a hierarchy, each a pipeline over both levels: while the leaders exchange one
// chunk with other hosts, the ranks of a host reduce the next one. Run by one thread of each rank,
// in the same order everywhere; tensors are plain memory, without autograd.
//
// Bytes that a leader sends to other hosts, N bytes a rank, H hosts, L ranks on the largest host:
//   all_reduce      2N(H-1)/H; N(H-1) up to 16 KiB, for the sake of one round trip less
//   reduce_scatter  N(H-1)/H of the input, were all hosts as large as the largest
//   all_gather      NL(H-1) of the input
//   broadcast       as the level between does it
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

/// One communicator of the hierarchy; its errors say where they happened.
class Level {
 public:
  Level(std::shared_ptr<Communicator> communicator, std::string place)
      : communicator_(std::move(communicator)), place_(std::move(place)) {}

  /// call(communicator); a CommError is nested in one that names the level.
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

  /// Null for the level between hosts on a rank that leads none.
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

/// `tensor` becomes the reduction over all ranks. fp16 and bf16 are added and multiplied in fp32.
void all_reduce_by_host(const Levels& levels, const at::Tensor& tensor, ReduceOp op);

/// `output` becomes this rank's part of the reduction of `input`, in parts by rank. Bitwise what
/// all_reduce_by_host gives, where the level inside reduces each element in the same order whatever
/// the size.
void reduce_scatter_by_host(const Levels& levels, const at::Tensor& output, const at::Tensor& input,
                            ReduceOp op);

/// `output` becomes the inputs in rank order.
void all_gather_by_host(const Levels& levels, const at::Tensor& output, const at::Tensor& input);

/// `tensor` of rank `source` overwrites everyone's.
void broadcast_by_host(const Levels& levels, const at::Tensor& tensor, int source);

/// Returns when all ranks have arrived.
void barrier_by_host(const Levels& levels);

}  // namespace accelerate::detail
