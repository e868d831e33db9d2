// Times every collective of the group it is launched in, on tensors of one size. Rank 0 reports the
// seconds of one call for each block. A block ends with a barrier, so that a rank which only sends
// does not count a send that it has merely begun. originals/collectives.py does the same in Python.
#include <ATen/ops/empty.h>
#include <accelerate/accelerate.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>

#include "accelerate/comm/state/partial_state.h"
#include "benchmarks/programs/measure.h"

namespace {

using accelerate::Communicator;
using accelerate::ReduceOp;

struct Size {
  std::int64_t bytes;  ///< Of a rank's tensor, or of the whole where it has parts.
  int blocks;
  int calls;  ///< In a block.
};

class Collectives {
 public:
  Collectives(Communicator& group, Size size)
      : group_(group),
        size_(size),
        numbers_(size.bytes / static_cast<std::int64_t>(sizeof(float))) {}

  nlohmann::json seconds() {
    time_reductions("", [this](std::int64_t numbers) { return private_tensor(numbers); });
    time_reductions("_in_place", [this](std::int64_t numbers) { return shared_tensor(numbers); });
    time_one_to_all();
    time_exchanges();
    time("barrier", size_.calls, [this] { group_.barrier(); });
    time_memory();
    return seconds_;
  }

 private:
  using Maker = std::function<at::Tensor(std::int64_t numbers)>;

  std::int64_t part() const { return numbers_ / group_.size(); }

  // Filled with zeros once: sums of zeros never grow, and every page is mapped.
  static at::Tensor private_tensor(std::int64_t numbers) { return at::empty({numbers}).fill_(0); }

  at::Tensor shared_tensor(std::int64_t numbers) { return shared_tensor_of(group_, numbers); }

  // Allocates memory that the group's collectives use in place.
  static at::Tensor shared_tensor_of(Communicator& group, std::int64_t numbers) {
    return group.empty({numbers}, at::TensorOptions{}).fill_(0);
  }

  void time_reductions(const std::string& suffix, const Maker& make) {
    const auto whole = make(numbers_), own = make(part());
    time("all_reduce" + suffix, size_.calls,
         [&] { group_.all_reduce(whole, ReduceOp::sum).wait(); });
    time("reduce_scatter" + suffix, size_.calls,
         [&] { group_.reduce_scatter(own, whole, ReduceOp::sum).wait(); });
    time("all_gather" + suffix, size_.calls, [&] { group_.all_gather(whole, own).wait(); });
  }

  void time_one_to_all() {
    const auto whole = private_tensor(numbers_), own = private_tensor(part());
    std::vector<at::Tensor> parts;
    if (group_.rank() == 0) parts = whole.split(part());
    time("broadcast", size_.calls, [&] { group_.broadcast(whole, 0).wait(); });
    time("reduce", size_.calls, [&] { group_.reduce(whole, 0, ReduceOp::sum).wait(); });
    time("gather", size_.calls, [&] { group_.gather(parts, own, 0).wait(); });
    time("scatter", size_.calls, [&] { group_.scatter(own, parts, 0).wait(); });
  }

  void time_exchanges() {
    const auto whole = private_tensor(numbers_), other = private_tensor(numbers_);
    time("all_to_all", size_.calls, [&] { group_.all_to_all(other, whole).wait(); });
    // Even ranks send to their odd neighbours and get the tensor back: two messages.
    const int neighbour = group_.rank() ^ 1;
    time("send", 2 * size_.calls, [&, turn = 0]() mutable {
      const bool sends = (group_.rank() + turn++) % 2 == 0;
      (sends ? group_.send(whole, neighbour) : group_.receive(other, neighbour)).wait();
    });
  }

  // Measures the bound: every rank reads and writes as many bytes of its own memory, in place.
  void time_memory() {
    const auto tensor = private_tensor(numbers_);
    auto* numbers = tensor.mutable_data_ptr<float>();
    constexpr std::int64_t kBytesOfABlock = 4 << 20;  // At least, so that barriers hardly count.
    const auto passes = static_cast<int>(std::max<std::int64_t>(1, kBytesOfABlock / size_.bytes));
    time("memory", passes * size_.calls, [&] {
      for (std::int64_t i = 0; i < numbers_; ++i) numbers[i] += 1.0F;
    });
  }

  template <typename Call>
  void time(const std::string& name, int calls, Call call) {
    const auto block = [&] {
      for (int i = 0; i < calls; ++i) call();
      group_.barrier();
    };
    block();  // Warms up; not counted.
    for (int i = 0; i < size_.blocks; ++i) {
      seconds_[name].push_back(bench::seconds_of(block) / calls);
    }
  }

  Communicator& group_;
  Size size_;
  std::int64_t numbers_;
  nlohmann::json seconds_;
};

void run(Size size) {
  const accelerate::PartialState state({.cpu = true});
  Communicator& group = *state.communicator();
  if (group.size() % 2 != 0) throw std::invalid_argument("an even number of ranks is needed");
  const auto seconds = Collectives(group, size).seconds();
  if (group.rank() == 0) {
    bench::report({{"seconds", seconds}, {"ranks", group.size()}, {"backend", group.backend()}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_numbers(argc, argv, {"KIB", "BLOCKS", "CALLS_PER_BLOCK"},
                                 [](const std::vector<int>& numbers) {
                                   run({std::int64_t{numbers[0]} * 1024, numbers[1], numbers[2]});
                                 });
}
