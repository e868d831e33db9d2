#include "accelerate/comm/shared_memory/in_place_collectives.h"

#include <cstring>
#include <utility>

#include "accelerate/comm/shared_memory/kernels.h"
#include "accelerate/comm/shared_memory/slices.h"

namespace accelerate::detail {
namespace {

// Memory of all ranks is read in the middle step. So a rank may go on, and change its own memory,
// when all ranks that read it have made this step.
constexpr Rounds::Needs kReadsEveryone = {
    .reduces = true, .filled_to_reduce = kEveryone, .reduced_to_drain = kEveryone};

void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (to != from) copy_streaming(to, from, bytes);
}

class InPlaceAllReduce final : public Rounds {
 public:
  InPlaceAllReduce(const Seat& seat, std::vector<std::byte*> tensors, std::size_t bytes,
                   Reduction reduction)
      : Rounds(1, kReadsEveryone),
        slice_(slice(bytes, seat.rank, seat.size)),
        tensors_(std::move(tensors)),
        reduction_(reduction) {}

  void reduce(std::uint32_t, const Slots&) override {
    for (auto& tensor : tensors_) tensor += slice_.begin;
    const std::vector<const std::byte*> sources(tensors_.begin(), tensors_.end());
    reduce_elements(tensors_, sources,
                    (slice_.end - slice_.begin) / c10::elementSize(reduction_.dtype),
                    reduction_.dtype, reduction_.op);
  }

 private:
  Slice slice_;
  std::vector<std::byte*> tensors_;
  Reduction reduction_;
};

class InPlaceReduceScatter final : public Rounds {
 public:
  InPlaceReduceScatter(const Seat& seat, Part output, std::vector<std::byte*> inputs,
                       Reduction reduction)
      : Rounds(1, kReadsEveryone),
        output_(output),
        sources_(inputs.begin(), inputs.end()),
        reduction_(reduction) {
    for (auto& source : sources_) source += static_cast<std::size_t>(seat.rank) * output.bytes;
  }

  void reduce(std::uint32_t, const Slots&) override {
    reduce_elements({&output_.data, 1}, sources_,
                    output_.bytes / c10::elementSize(reduction_.dtype), reduction_.dtype,
                    reduction_.op);
  }

 private:
  Part output_;
  std::vector<const std::byte*> sources_;
  Reduction reduction_;
};

// Copies each of `inputs` to the output at the same index.
class InPlaceCopies final : public Rounds {
 public:
  InPlaceCopies(Needs needs, std::vector<std::byte*> outputs, std::vector<const std::byte*> inputs,
                std::size_t bytes)
      : Rounds(1, needs), outputs_(std::move(outputs)), inputs_(std::move(inputs)), bytes_(bytes) {}

  void reduce(std::uint32_t, const Slots&) override {
    for (std::size_t i = 0; i < outputs_.size(); ++i) copy(outputs_[i], inputs_[i], bytes_);
  }

 private:
  std::vector<std::byte*> outputs_;
  std::vector<const std::byte*> inputs_;
  std::size_t bytes_;
};

}  // namespace

std::unique_ptr<Rounds> in_place_all_reduce(const Seat& seat, std::vector<std::byte*> tensors,
                                            std::size_t bytes, Reduction reduction) {
  return std::make_unique<InPlaceAllReduce>(seat, std::move(tensors), bytes, reduction);
}

std::unique_ptr<Rounds> in_place_reduce_scatter(const Seat& seat, Part output,
                                                std::vector<std::byte*> inputs,
                                                Reduction reduction) {
  return std::make_unique<InPlaceReduceScatter>(seat, output, std::move(inputs), reduction);
}

std::unique_ptr<Rounds> in_place_all_gather(const Seat&, std::vector<std::byte*> outputs,
                                            std::vector<std::byte*> inputs, std::size_t bytes) {
  return std::make_unique<InPlaceCopies>(
      kReadsEveryone, std::move(outputs),
      std::vector<const std::byte*>(inputs.begin(), inputs.end()), bytes);
}

std::unique_ptr<Rounds> in_place_broadcast(const Seat& seat, Part tensor, const std::byte* source,
                                           int root) {
  if (seat.rank == root) {  // It reads nothing, and waits for the ranks that read from it.
    return std::make_unique<InPlaceCopies>(
        Rounds::Needs{.reduces = true, .reduced_to_drain = kEveryone}, std::vector<std::byte*>{},
        std::vector<const std::byte*>{}, tensor.bytes);
  }
  return std::make_unique<InPlaceCopies>(Rounds::Needs{.reduces = true, .filled_to_reduce = root},
                                         std::vector<std::byte*>{tensor.data},
                                         std::vector<const std::byte*>{source}, tensor.bytes);
}

std::unique_ptr<Rounds> in_place_scatter(const Seat& seat, Part output, const std::byte* source,
                                         int root) {
  const Rounds::Needs needs = seat.rank == root
                                  ? Rounds::Needs{.reduces = true, .reduced_to_drain = kEveryone}
                                  : Rounds::Needs{.reduces = true, .filled_to_reduce = root};
  return std::make_unique<InPlaceCopies>(
      needs, std::vector<std::byte*>{output.data},
      std::vector<const std::byte*>{source + static_cast<std::size_t>(seat.rank) * output.bytes},
      output.bytes);
}

std::unique_ptr<Rounds> in_place_gather(const Seat& seat, std::vector<std::byte*> outputs,
                                        std::vector<std::byte*> inputs, std::size_t bytes,
                                        int root) {
  const bool keeps = seat.rank == root;
  return std::make_unique<InPlaceCopies>(
      Rounds::Needs{.reduces = true,
                    .filled_to_reduce = keeps ? kEveryone : kNobody,
                    .reduced_to_drain = keeps ? kNobody : root},
      std::move(outputs), std::vector<const std::byte*>(inputs.begin(), inputs.end()), bytes);
}

std::unique_ptr<Rounds> in_place_all_to_all(const Seat& seat, std::byte* output,
                                            std::vector<std::byte*> inputs, std::size_t bytes) {
  std::vector<std::byte*> outputs;
  std::vector<const std::byte*> sources;
  for (std::size_t peer = 0; peer < inputs.size(); ++peer) {
    outputs.push_back(output + peer * bytes);
    sources.push_back(inputs[peer] + static_cast<std::size_t>(seat.rank) * bytes);
  }
  return std::make_unique<InPlaceCopies>(kReadsEveryone, std::move(outputs), std::move(sources),
                                         bytes);
}

}  // namespace accelerate::detail
