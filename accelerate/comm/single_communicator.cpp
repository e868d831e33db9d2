#include "accelerate/base/error.h"
#include "accelerate/comm/communicable_tensors.h"
#include "accelerate/comm/communicator.h"

namespace accelerate {
namespace {

class SingleCommunicator final : public Communicator {
 public:
  SingleCommunicator() : Communicator(0, 1) {}

  std::string_view backend() const override { return "single"; }
  std::chrono::milliseconds timeout() const override { return std::chrono::milliseconds::max(); }

  Work all_reduce(at::Tensor tensor, ReduceOp op) override {
    detail::check_reduction(tensor, op);
    return {};
  }
  Work broadcast(at::Tensor, int source) override { return only_zero(source); }
  Work all_gather(at::Tensor output, at::Tensor input) override { return copy(output, input); }
  Work reduce_scatter(at::Tensor output, at::Tensor input, ReduceOp op) override {
    detail::check_reduction(input, op);
    return copy(output, input);
  }
  Work reduce(at::Tensor tensor, int destination, ReduceOp op) override {
    detail::check_reduction(tensor, op);
    return only_zero(destination);
  }
  Work gather(std::vector<at::Tensor> outputs, at::Tensor input, int destination) override {
    only_zero(destination);
    return copy(outputs.at(0), input);
  }
  Work scatter(at::Tensor output, std::vector<at::Tensor> inputs, int source) override {
    only_zero(source);
    return copy(output, inputs.at(0));
  }
  Work all_to_all(at::Tensor output, at::Tensor input) override { return copy(output, input); }
  Work send(at::Tensor, int, int) override { throw nobody_else(); }
  Work receive(at::Tensor, int, int) override { throw nobody_else(); }
  void barrier() override {}
  std::shared_ptr<Communicator> split(const std::vector<int>& ranks) override {
    for (const int rank : ranks) only_zero(rank);
    return ranks.empty() ? nullptr : single_communicator();
  }
  void abort(const std::string&) noexcept override {}

 private:
  static Work only_zero(int rank) {
    if (rank != 0) {
      throw UsageError("rank " + std::to_string(rank) +
                       " was named in a group of one; only rank 0 is in it");
    }
    return {};
  }
  static Work copy(at::Tensor& output, const at::Tensor& input) {
    output.view({-1}).copy_(input.reshape({-1}));
    return {};
  }
  static UsageError nobody_else() {
    return UsageError("send and receive need a second rank, and this group has one");
  }
};

}  // namespace

std::shared_ptr<Communicator> single_communicator() {
  return std::make_shared<SingleCommunicator>();
}

}  // namespace accelerate
