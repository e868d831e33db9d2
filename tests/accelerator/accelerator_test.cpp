// The public face: prepare, ranks that train as one, gather_for_metrics, process helpers, saving.
#include "accelerate/accelerate.h"

#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <set>
#include <string>
#include <vector>

#include "accelerate/formats/torch_archive/torch_archive.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/small_net.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::make_net;
using testing::Net;
using testing::NetImpl;
using testing::on;
using testing::run_ranks_shared;
using testing::samples;
using testing::TemporaryFolder;

TEST(Accelerator, PrepareReturnsObjectsInTheOrderGiven) {
  Accelerator accelerator(on(single_communicator()));
  Net net = make_net();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto batches = make_data_loader(samples(8), {.batch_size = 2});
  int other = 7;
  auto [loader, number, model, optimizer] = accelerator.prepare(batches, other, net, sgd);
  static_assert(std::is_same_v<decltype(model), Prepared<Net>>);
  static_assert(std::is_same_v<decltype(optimizer), AcceleratedOptimizer>);
  static_assert(std::is_same_v<decltype(number), int&>);
  number = 8;
  EXPECT_EQ(other, 8);
  EXPECT_EQ(loader.size(), 4u);
  EXPECT_EQ(&optimizer.optimizer(), &sgd);
  EXPECT_EQ(model->in.get(), net->in.get());
}

TEST(Accelerator, PrepareTakesEveryKindOfModuleAndIsIdempotent) {
  Accelerator accelerator(on(single_communicator()));
  Net holder = make_net();
  auto shared = std::make_shared<NetImpl>();
  NetImpl stack;
  auto a = accelerator.prepare(holder);
  auto b = accelerator.prepare(shared);
  auto c = accelerator.prepare(stack);
  EXPECT_EQ(a(samples(3)).size(0), 3);
  EXPECT_EQ(b.forward(samples(3)).size(0), 3);
  EXPECT_EQ(c(samples(3)).size(0), 3);
  EXPECT_EQ(a.core(), accelerator.prepare(holder).core());
  EXPECT_EQ(&Accelerator::unwrap_model(c), &stack);
  EXPECT_EQ(Accelerator::unwrap_model(a).get(), holder.get());
  EXPECT_EQ(a.parameters().size(), 4u);
}

TEST(Accelerator, EveryRankStartsFromRankZerosWeights) {
  run_ranks_shared(3, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net(comm->rank());
    net->scale.fill_(comm->rank() + 1.0);
    auto model = accelerator.prepare(net);
    Net reference = make_net(0);
    EXPECT_TRUE(net->in->weight.equal(reference->in->weight));
    EXPECT_EQ(net->scale.item<float>(), 1.0F);
  });
}

TEST(Accelerator, ModelsThatDifferBetweenRanksAreAnErrorThatShowsBoth) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    torch::nn::Linear layer(4, comm->rank() == 0 ? 2 : 3);
    try {
      (void)accelerator.prepare(layer);
      FAIL();
    } catch (const CommError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find("rank 0: prepare(torch::nn::LinearImpl) of weight Float[2, 4]"),
                std::string::npos)
          << text;
      EXPECT_NE(text.find("rank 1: prepare(torch::nn::LinearImpl) of weight Float[3, 4]"),
                std::string::npos)
          << text;
    }
  });
}

// Weights after `steps` on `n` ranks, each taking its share of the same global batches.
std::vector<at::Tensor> train(const std::shared_ptr<Communicator>& comm, std::int64_t global_batch,
                              int steps, at::ScalarType dtype) {
  Accelerator accelerator({.dataloader_config = {.split_batches = true}, .communicator = comm});
  Net net = make_net();
  net->to(dtype);
  torch::optim::SGD sgd(net->parameters(),
                        torch::optim::SGDOptions(0.05).momentum(dtype == at::kDouble ? 0.9 : 0.0));
  auto batches = make_data_loader(samples(steps * global_batch).to(dtype),
                                  {.batch_size = global_batch, .shuffle = true, .data_seed = 5});
  auto [model, optimizer, loader] = accelerator.prepare(net, sgd, batches);
  EXPECT_EQ(loader.size(), static_cast<std::size_t>(steps));
  for (auto& batch : loader) {
    EXPECT_EQ(batch.size(0), global_batch / comm->size());
    auto loss = (model(batch) - batch.sum(1, true)).pow(2).mean();
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
  }
  std::vector<at::Tensor> weights;
  for (const auto& p : net->parameters()) weights.push_back(p.detach().clone());
  return weights;
}

class Equivalence : public ::testing::TestWithParam<std::tuple<int, at::ScalarType, double>> {};

// Only the order of a few additions differs: fp64 with momentum, fp32 with plain SGD.
TEST_P(Equivalence, RanksTrainWhatOneProcessTrains) {
  const auto [n, dtype, tolerance] = GetParam();
  const auto expected = train(single_communicator(), 12, 50, dtype);
  run_ranks_shared(
      n, [&, dtype = dtype, tolerance = tolerance](const std::shared_ptr<Communicator>& comm) {
        const auto weights = train(comm, 12, 50, dtype);
        for (std::size_t i = 0; i < weights.size(); ++i) {
          EXPECT_LE((weights[i] - expected[i]).abs().max().item<double>(), tolerance) << i;
        }
      });
}
INSTANTIATE_TEST_SUITE_P(Ranks, Equivalence,
                         ::testing::Values(std::tuple{2, at::kDouble, 1e-12},
                                           std::tuple{3, at::kDouble, 1e-12},
                                           std::tuple{2, at::kFloat, 1e-6},
                                           std::tuple{3, at::kFloat, 1e-6}));

TEST(Accelerator, ASingleObjectOfAnotherTypeComesBackByReference) {
  Accelerator accelerator(on(single_communicator()));
  auto owner = std::make_unique<int>(3);
  auto& same = accelerator.prepare(owner);
  EXPECT_EQ(&same, &owner);
}

TEST(Accelerator, GatherForMetricsReturnsEverySampleOnce) {
  for (const bool even : {true, false}) {
    for (const std::int64_t n : {22, 21, 24, 9}) {
      run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
        Accelerator accelerator(
            {.dataloader_config = {.even_batches = even}, .communicator = comm});
        auto loader = accelerator.prepare(make_data_loader(torch::arange(n), {.batch_size = 4}));
        if (!even && n == 9) return;  // the ranks have unequal numbers of batches
        if (!even && n == 24) return;
        std::vector<at::Tensor> seen;
        for (auto& batch : loader) seen.push_back(accelerator.gather_for_metrics(batch));
        EXPECT_TRUE(torch::cat(seen).equal(torch::arange(n))) << n << " even " << even;
      });
    }
  }
}

TEST(Accelerator, RanksAgreeOnTheOrderWithoutASeed) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    auto loader = accelerator.prepare(
        make_data_loader(torch::arange(16), {.batch_size = 4, .shuffle = true}));
    std::vector<at::Tensor> seen;
    for (auto& batch : loader) seen.push_back(accelerator.gather(batch));
    EXPECT_TRUE(std::get<0>(torch::cat(seen).sort()).equal(torch::arange(16)));
  });
}

TEST(Accelerator, ProcessHelpersRunWhereTheySay) {
  run_ranks_shared(3, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    EXPECT_EQ(accelerator.on_main_process([] { return 1; })().has_value(), comm->rank() == 0);
    EXPECT_EQ(accelerator.on_last_process([] { return 1; })().has_value(), comm->rank() == 2);
    EXPECT_EQ(accelerator.on_process([](int x) { return x; }, 1)(5).value_or(0),
              comm->rank() == 1 ? 5 : 0);
    EXPECT_EQ(accelerator.on_local_main_process([] { return 1; })().has_value(), comm->rank() == 0);
    EXPECT_EQ(accelerator.on_local_process([](int x) { return x; }, 2)(5).value_or(0),
              comm->rank() == 2 ? 5 : 0);
    EXPECT_FALSE(accelerator.check_trigger());
    if (comm->rank() == 1) accelerator.set_trigger();
    EXPECT_TRUE(accelerator.check_trigger());
    EXPECT_FALSE(accelerator.check_trigger());
  });
}

struct Member {
  Prepared<Net> model;
  [[nodiscard]] at::Tensor scores() const { return model(torch::ones({1, 4})); }
};

TEST(Accelerator, APreparedModelMayBeAMemberThatIsAssignedLater) {
  run_ranks_shared(1, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Member member;
    EXPECT_FALSE(member.model);
    EXPECT_NE(testing::message_of<UsageError>([&] {
                (void)member.scores();
              }).find("assign to it what accelerator.prepare(net) returns"),
              std::string::npos);
    Net net = make_net();
    member.model = accelerator.prepare(net);
    EXPECT_TRUE(member.model);
    EXPECT_TRUE(member.scores().equal(net(torch::ones({1, 4}))));
  });
}

TEST(Accelerator, ALoaderKnowsItsDataset) {
  run_ranks_shared(1, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    const auto rows = std::make_shared<std::vector<at::Tensor>>(4, torch::ones({2}));
    const auto loader = accelerator.prepare(make_data_loader(rows, {.batch_size = 2}));
    EXPECT_EQ(&loader.dataset<std::vector<at::Tensor>>(), rows.get());
    EXPECT_NE(testing::message_of<UsageError>([&] {
                (void)loader.dataset<Net>();
              }).find("a loader whose dataset is a std::vector<at::Tensor"),
              std::string::npos);
  });
}

void expect_rank_0_first(ProcessFirst (Accelerator::*scope_of)() const) {
  std::atomic<bool> main_done = false;
  run_ranks_shared(3, [&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    auto scope = (accelerator.*scope_of)();
    if (comm->rank() == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      main_done = true;
    }
    EXPECT_TRUE(main_done);
  });
}

TEST(Accelerator, MainProcessFirstIsFirst) {
  expect_rank_0_first(&Accelerator::main_process_first);
}

TEST(Accelerator, LocalMainProcessFirstIsFirstOfItsMachine) {
  expect_rank_0_first(&Accelerator::local_main_process_first);
}

// A loop that counts its own windows, as the Trainer's does.
TEST(Accelerator, WithoutSyncGradientsTheOptimizerOnlyWaits) {
  run_ranks_shared(2, [](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net();
    torch::optim::SGD sgd(net->parameters(), 0.1);
    auto [model, optimizer] = accelerator.prepare(net, sgd);
    const auto before = net->in->weight.detach().clone();
    const auto step = [&](bool syncs) {
      accelerator.set_sync_gradients(syncs);
      accelerator.backward(model(torch::ones({2, 4}) * (comm->rank() + 1)).sum());
      optimizer.step();
    };
    step(false);
    EXPECT_TRUE(net->in->weight.equal(before));
    step(true);
    EXPECT_FALSE(net->in->weight.equal(before));
  });
}

TEST(Accelerator, SaveModelWritesOnceWithTiedWeightsUnderTheirFirstName) {
  const TemporaryFolder folder;
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    Accelerator accelerator(on(comm));
    Net net = make_net();
    net->register_parameter("tied", net->in->weight);
    auto model = accelerator.prepare(net);
    accelerator.save_model(model, folder.path() / "out");
    accelerator.save_model(model, folder.path() / "bin", "10GB", /*safe_serialization=*/false);
    accelerator.save({{"x", net->out->weight}}, folder.path() / "x.bin", false);
    accelerator.end_training();
    EXPECT_EQ(TorchArchive::open(folder.path() / "bin/pytorch_model.bin").state_dict().size(), 5U);
    EXPECT_EQ(TorchArchive::open(folder.path() / "x.bin").state_dict().front().first, "x");
    const auto saved = load_tensors(folder.path() / "out" / "model.safetensors");
    EXPECT_EQ(saved.size(), 5u);
    for (const auto& [name, tensor] : saved) {
      if (name == "out.weight") {
        EXPECT_TRUE(tensor.equal(net->out->weight.detach()));
      }
    }
  });
}

std::set<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  for (const auto& item : tensors) names.insert(item.name);
  return names;
}

// Python says which buffers are not saved, and a trace forgets it.
TEST(Accelerator, SaveModelLeavesOutWhatTransformersMakesOfATracedModel) {
  const auto row = torch::arange(6).unsqueeze(0);
  torch::jit::Module script("__torch__.transformers.models.bert.modeling_bert.BertModel");
  script.register_parameter("weight", torch::ones({2}), /*is_buffer=*/false);
  script.register_buffer("position_ids", row);
  script.register_buffer("token_type_ids", torch::zeros_like(row));
  torch::jit::Module other("__torch__.nets.Other");
  other.register_buffer("position_ids", row + 2);
  other.register_buffer("token_type_ids", row);
  script.register_module("other", other);
  const TemporaryFolder folder;
  Accelerator accelerator(on(single_communicator()));
  auto model = accelerator.prepare(script);
  accelerator.save_model(model, folder.path());
  const std::set<std::string> kept = {"weight", "other.position_ids", "other.token_type_ids"};
  EXPECT_EQ(names_of(load_tensors(folder.path() / "model.safetensors")), kept);
  EXPECT_EQ(names_of(accelerator.get_state_dict(model)), kept);
  EXPECT_TRUE(load_checkpoint_in_model(script, folder.path()).fits());

  torch::jit::Module masked("__torch__.nets.Masked");
  masked.register_parameter("weight", torch::ones({2}), /*is_buffer=*/false);
  masked.register_buffer("mask", row.clone());
  masked.register_module("other", other);
  EXPECT_EQ(load_checkpoint_in_model(masked, folder.path(), {.strict = false}).missing,
            std::vector<std::string>{"mask"});
}

TEST(Accelerator, FreeMemoryForgetsWhatWasPreparedAndEmptiesWhatItIsGiven) {
  Accelerator accelerator(
      {.gradient_accumulation_steps = 2, .communicator = single_communicator()});
  Net net = make_net();
  torch::optim::SGD sgd(net->parameters(), 0.1);
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  {
    auto window = accelerator.accumulate(model);
    accelerator.backward(model(samples(2)).sum());
  }
  ASSERT_EQ(accelerator.step(), 1);
  at::Tensor outputs = torch::ones({4});
  std::vector<at::Tensor> kept = {outputs};
  accelerator.free_memory(net, outputs, kept);
  EXPECT_TRUE(net.is_empty());
  EXPECT_FALSE(outputs.defined());
  EXPECT_TRUE(kept.empty());
  EXPECT_EQ(accelerator.step(), 0);
  EXPECT_NE(accelerator.prepare(sgd).core(), optimizer.core());
}

}  // namespace
}  // namespace accelerate
