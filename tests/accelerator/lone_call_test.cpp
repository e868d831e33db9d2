// A call that all ranks must make, made by one alone: its error names it.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/base/error.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::Engine;
using testing::kind_and_message_of;
using testing::run_ranks_shared;
using testing::TemporaryFolder;

using Group = std::shared_ptr<Communicator>;
using Call = std::function<void(Accelerator&, Prepared<testing::Net>&)>;

void expect_has(const std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << text;
}

/// What rank 0 reads that calls `lone`, while rank 1 calls `other`.
std::string message_of_lone(const Call& lone, const Call& other, const Engine engine,
                            const std::optional<FullyShardedDataParallelPlugin>& plugin = {}) {
  std::string message;
  run_ranks_shared(2,
                   [&](const Group& group) {
                     AcceleratorOptions options = testing::on(group);
                     options.fsdp_plugin = plugin;
                     Accelerator accelerator(options);
                     auto net = testing::make_net();
                     auto model = accelerator.prepare(net);
                     const auto text = kind_and_message_of(
                         [&] { (group->rank() == 0 ? lone : other)(accelerator, model); });
                     if (group->rank() == 0) message = text;
                   },
                   {.timeout = std::chrono::milliseconds(3000), .engine = engine});
  return message;
}

void leave(Accelerator&, Prepared<testing::Net>&) {}
void all_reduce(Accelerator& accelerator, Prepared<testing::Net>&) {
  accelerator.communicator().all_reduce(torch::ones({5}), ReduceOp::sum).wait();
}
void gather(Accelerator& accelerator, Prepared<testing::Net>&) {
  static_cast<void>(accelerator.gather(torch::ones({5})));
}

TEST(LoneCall, SaveStateIsNamedWhateverTheOtherRankDoes) {
  const TemporaryFolder home;
  const Call save = [&](Accelerator& accelerator, auto&) {
    accelerator.save_state(home.path() / "s");
  };
  for (const auto engine : {Engine::gloo, Engine::shared_memory}) {
    SCOPED_TRACE(testing::to_string(engine));
    for (const Call& other : {Call(leave), Call(all_reduce)}) {
      expect_has(message_of_lone(save, other, engine),
                 {"CommError: save_state(): all_gather", "rank 0 of 2"});
    }
    expect_has(message_of_lone(save, gather, engine), {"rank 0: save_state()", "rank 1: gather"});
  }
}

TEST(LoneCall, OfAShardedModelIsNamed) {
  const TemporaryFolder home;
  const FullyShardedDataParallelPlugin plugin;
  const Call save = [&](Accelerator& accelerator, auto& model) {
    accelerator.save_model(model, home.path() / "m");
  };
  const Call get = [](Accelerator& accelerator, auto& model) {
    static_cast<void>(accelerator.get_state_dict(model));
  };
  const auto engine = Engine::shared_memory;
  expect_has(message_of_lone(save, all_reduce, engine, plugin), {"save_model(): all_gather"});
  expect_has(message_of_lone(get, save, engine, plugin),
             {"rank 0: get_state_dict()", "rank 1: save_model()"});
}

TEST(LoneCall, LoadStateAndPrepareAreNamed) {
  const Call load = [](Accelerator& accelerator, auto&) { accelerator.load_state("none"); };
  const Call prepare = [](Accelerator& accelerator, auto&) {
    auto net = testing::make_net();
    static_cast<void>(accelerator.prepare(net));
  };
  const auto engine = Engine::shared_memory;
  expect_has(message_of_lone(load, all_reduce, engine), {"load_state(): all_gather"});
  expect_has(message_of_lone(prepare, all_reduce, engine), {"prepare(): all_gather"});
}

}  // namespace
}  // namespace accelerate
