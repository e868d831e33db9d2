// Collectives on private memory. Data passes through staging slots that stay in the cache, so each
// byte crosses the memory bus once in and once out.
//
// For small tensors there is one round, in which every rank reduces everything. For large tensors
// every rank reduces a slice and copies its peers' slices (Rabenseifner's reduce-scatter and
// all-gather), in rounds that overlap. Both reduce elements in the order of ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "accelerate/comm/shared_memory/call.h"
#include "accelerate/comm/shared_memory/rounds.h"

namespace accelerate::detail {

/// A rank's place in its group.
struct Seat {
  int rank = 0;
  int size = 1;
  std::size_t slot_bytes = 0;
};

struct Reduction {
  c10::ScalarType dtype = c10::ScalarType::Float;
  ReduceOp op = ReduceOp::sum;
};

/// Bytes of one rank that a collective reads or writes.
struct Part {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

/// `tensor` becomes the reduction of all ranks' tensors.
std::unique_ptr<Rounds> staged_all_reduce(const Seat& seat, Part tensor, Reduction reduction);
/// On `root`, `tensor` becomes the reduction of all ranks' tensors. On other ranks it stays as it
/// is.
std::unique_ptr<Rounds> staged_reduce(const Seat& seat, Part tensor, Reduction reduction, int root);
/// `output` becomes the reduction of all ranks' inputs[seat.rank].
std::unique_ptr<Rounds> staged_reduce_scatter(const Seat& seat, Part output,
                                              std::vector<std::byte*> inputs, Reduction reduction);
/// outputs[r] becomes the input of rank r.
std::unique_ptr<Rounds> staged_all_gather(const Seat& seat, std::vector<std::byte*> outputs,
                                          Part input);
std::unique_ptr<Rounds> staged_broadcast(const Seat& seat, Part tensor, int root);
/// On `root`, outputs[r] becomes the input of rank r; on other ranks `outputs` is empty.
std::unique_ptr<Rounds> staged_gather(const Seat& seat, std::vector<std::byte*> outputs, Part input,
                                      int root);
/// `output` of rank r becomes inputs[r] of `root`; on other ranks `inputs` is empty.
std::unique_ptr<Rounds> staged_scatter(const Seat& seat, Part output,
                                       std::vector<std::byte*> inputs, int root);
/// outputs[r] becomes inputs[seat.rank] of rank r, which has the same size. `largest` is the size
/// of the largest part of any rank.
std::unique_ptr<Rounds> staged_all_to_all(const Seat& seat, std::vector<Part> outputs,
                                          std::vector<Part> inputs, std::size_t largest);
std::unique_ptr<Rounds> staged_barrier();

}  // namespace accelerate::detail
