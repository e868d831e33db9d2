// Collectives on memory that every rank sees: they take one round, and nothing is staged. In an
// all-reduce each rank reduces its slice from the memory of all ranks and writes the result to all.
#pragma once

#include <memory>
#include <vector>

#include "accelerate/comm/shared_memory/rounds.h"
#include "accelerate/comm/shared_memory/staged_collectives.h"

namespace accelerate::detail {

/// Every tensor becomes the reduction of all. tensors[r] is the address in this process of the
/// tensor of rank r; each has `bytes` bytes.
std::unique_ptr<Rounds> in_place_all_reduce(const Seat& seat, std::vector<std::byte*> tensors,
                                            std::size_t bytes, Reduction reduction);
/// `output`, private, becomes the reduction of inputs[r] + seat.rank * output.bytes over all r.
std::unique_ptr<Rounds> in_place_reduce_scatter(const Seat& seat, Part output,
                                                std::vector<std::byte*> inputs,
                                                Reduction reduction);
/// outputs[r], private, becomes inputs[r].
std::unique_ptr<Rounds> in_place_all_gather(const Seat& seat, std::vector<std::byte*> outputs,
                                            std::vector<std::byte*> inputs, std::size_t bytes);
/// `tensor` becomes `source`, the memory of rank `root`.
std::unique_ptr<Rounds> in_place_broadcast(const Seat& seat, Part tensor, const std::byte* source,
                                           int root);
/// `output` becomes part seat.rank of `source`, the memory of rank `root`.
std::unique_ptr<Rounds> in_place_scatter(const Seat& seat, Part output, const std::byte* source,
                                         int root);
/// On `root` outputs[r], private, becomes inputs[r]; on other ranks `outputs` is empty.
std::unique_ptr<Rounds> in_place_gather(const Seat& seat, std::vector<std::byte*> outputs,
                                        std::vector<std::byte*> inputs, std::size_t bytes,
                                        int root);
/// Part r of `output`, private, becomes part seat.rank of inputs[r]; a part has `bytes` bytes.
std::unique_ptr<Rounds> in_place_all_to_all(const Seat& seat, std::byte* output,
                                            std::vector<std::byte*> inputs, std::size_t bytes);

}  // namespace accelerate::detail
