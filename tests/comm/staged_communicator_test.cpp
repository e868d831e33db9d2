// Memory of an engine behind tensors of another device: what the caller gets, and what copies use.
#include "accelerate/comm/staged_communicator.h"

#include <gtest/gtest.h>
#include <torch/types.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/ranks.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;

// As the kernel lists what is mapped: "7f12-7f34 rw-s … /memfd:name".
bool lies_in_a_memory_file(const at::Tensor& tensor) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data_ptr());
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::uintptr_t from = 0, to = 0;
    char dash = 0;
    words >> std::hex >> from >> dash >> to;
    if (from <= address && address < to) return line.find("memfd:") != std::string::npos;
  }
  return false;
}

TEST(StagedCommunicator, GivesOutTheMemoryThatItsEngineReducesInPlace) {
  run_ranks_shared(2,
                   [](const std::shared_ptr<Communicator>& engine) {
                     const auto staged = stage_on(engine, c10::kCPU);
                     const at::Tensor large = staged->empty({1 << 16}, at::kFloat).fill_(1);
                     EXPECT_TRUE(lies_in_a_memory_file(large));
                     EXPECT_FALSE(lies_in_a_memory_file(torch::empty({1 << 16})));
                     staged->all_reduce(large, ReduceOp::sum).wait();
                     EXPECT_TRUE((large == 2).all().item<bool>());
                   },
                   {.engine = testing::Engine::shared_memory});
}

TEST(StagedCommunicator, GivesOutMemoryOfAnyOtherDeviceToo) {
  run_ranks_shared(
      2,
      [](const std::shared_ptr<Communicator>& engine) {
        const auto elsewhere = at::TensorOptions().dtype(at::kFloat).device(c10::kMeta);
        EXPECT_TRUE(stage_on(engine, c10::kCPU)->empty({1 << 16}, elsewhere).is_meta());
      },
      {.engine = testing::Engine::shared_memory});
}

// Takes tensors of the device that stores nothing, and notes what it made and what it got.
class EngineOfNothing final : public Communicator {
 public:
  EngineOfNothing() : Communicator(0, 2) {}
  at::Tensor empty(at::IntArrayRef sizes, const at::TensorOptions& options) override {
    return made = at::empty(sizes, options);
  }
  Work send(at::Tensor tensor, int, int) override {
    sent = std::move(tensor);
    return {};
  }

  std::string_view backend() const override { return "nothing"; }
  std::chrono::milliseconds timeout() const override { return std::chrono::milliseconds(0); }
  Work all_reduce(at::Tensor, ReduceOp) override { return unexpected(); }
  Work broadcast(at::Tensor, int) override { return unexpected(); }
  Work all_gather(at::Tensor, at::Tensor) override { return unexpected(); }
  Work reduce_scatter(at::Tensor, at::Tensor, ReduceOp) override { return unexpected(); }
  Work reduce(at::Tensor, int, ReduceOp) override { return unexpected(); }
  Work gather(std::vector<at::Tensor>, at::Tensor, int) override { return unexpected(); }
  Work scatter(at::Tensor, std::vector<at::Tensor>, int) override { return unexpected(); }
  Work all_to_all(at::Tensor, at::Tensor) override { return unexpected(); }
  Work receive(at::Tensor, int, int) override { return unexpected(); }
  void barrier() override { unexpected(); }
  std::shared_ptr<Communicator> split(const std::vector<int>&) override { return nullptr; }
  void abort(const std::string&) noexcept override {}

  at::Tensor made, sent;

 private:
  static Work unexpected() { throw std::logic_error("a call that the test does not expect"); }
};

TEST(StagedCommunicator, CopiesIntoMemoryOfItsEngine) {
  const auto engine = std::make_shared<EngineOfNothing>();
  const auto weight = torch::ones({2, 3}, at::TensorOptions().requires_grad(true));
  stage_on(engine, c10::kMeta)->send(weight, 1).wait();
  EXPECT_TRUE(engine->sent.is_same(engine->made));
  EXPECT_TRUE(engine->sent.is_meta());
  EXPECT_EQ(engine->sent.sizes(), weight.sizes());
  EXPECT_FALSE(engine->sent.requires_grad());
}

TEST(StagedCommunicator, CopiesNothingThatLiesWhereItsEngineTakesIt) {
  const auto engine = std::make_shared<EngineOfNothing>();
  const auto near = torch::ones({2, 3}, at::TensorOptions().device(c10::kMeta));
  stage_on(engine, c10::kMeta)->send(near, 1).wait();
  EXPECT_TRUE(engine->sent.is_same(near));
  EXPECT_FALSE(engine->made.defined());
}

}  // namespace
}  // namespace accelerate
