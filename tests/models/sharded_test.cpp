// Models under FSDP: units from the model itself, weights from rank 0, folders written together.
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>

#include <memory>
#include <mutex>

#include "accelerate/accelerate.h"
#include "accelerate/checkpoint/weight_files.h"
#include "tests/models/small_models.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::run_ranks_shared;
using testing::TemporaryFolder;

// Without random numbers: ranks are threads, which share LibTorch's generator.
Inputs batch_of(int rank) {
  const at::Tensor ids = (at::arange(18).view({3, 6}) * (7 + rank)) % 29 + 1;
  at::Tensor mask = at::ones({3, 6}, at::kLong);
  mask[1].narrow(0, 4, 2).zero_();
  return Inputs{{"input_ids", ids}, {"attention_mask", mask}, {"labels", at::arange(3) % 2}};
}

// Two ranks train three steps from `start` and write what came of it.
void train(const std::filesystem::path& start, const std::filesystem::path& out, bool sharded) {
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    AcceleratorOptions options;
    options.communicator = comm;
    if (sharded) {
      options.fsdp_plugin = FullyShardedDataParallelPlugin{};
      options.fsdp_plugin->auto_wrap_policy = AutoWrapPolicy::TRANSFORMER_BASED_WRAP;
    }
    Accelerator accelerator(options);
    const auto net = AutoModelForSequenceClassification::from_pretrained(start.string());
    net->train();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    for (int step = 0; step < 3; ++step) {
      ModelOutput outputs = model(batch_of(comm->rank()));
      accelerator.backward(outputs.loss);
      optimizer.step();
      optimizer.zero_grad();
    }
    accelerator.unwrap_model(model)->save_pretrained(
        out, {.is_main_process = accelerator.is_main_process()});
  });
}

TEST(ShardedModels, TrainAndSaveAsReplicatedOnes) {
  const TemporaryFolder start, sharded, replicated;
  at::manual_seed(5);
  AutoModelForSequenceClassification::from_config(testing::small_bert_config())
      ->save_pretrained(start.path());
  train(start.path(), sharded.path(), true);
  train(start.path(), replicated.path(), false);
  const auto found = map_weights(sharded.path()), expected = map_weights(replicated.path());
  ASSERT_EQ(found.outlines.size(), expected.outlines.size());
  double moved = 0;
  const auto before = map_weights(start.path());
  for (const auto& [name, outline] : expected.outlines) {
    EXPECT_TRUE(found.read(name).allclose(expected.read(name), 1e-5, 1e-6)) << name;
    moved += (expected.read(name) - before.read(name)).abs().sum().item<double>();
  }
  EXPECT_GT(moved, 0.1);
}

}  // namespace
}  // namespace accelerate
