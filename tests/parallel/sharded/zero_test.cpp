// The stages of DeepSpeed's ZeRO, as the launcher asks for them, train what one process trains.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/muon_with_aux_adam.h"
#include "accelerate/optim/deepspeed_dummies.h"
#include "accelerate/optim/schedules/deepspeed_schedules.h"
#include "tests/parallel/sharded/sharded_net.h"
#include "tests/support/errors.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::message_of;
using testing::run_ranks_shared;
using testing::ScopedEnv;
using testing::ShardedNet;

std::vector<at::Tensor> train(const std::shared_ptr<Communicator>& comm) {
  Accelerator accelerator({.communicator = comm});
  ShardedNet net(testing::ShardedNetOptions{});
  net->to(at::kDouble);
  torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.01));
  auto [model, optimizer] = accelerator.prepare(net, adamw);
  const auto x = torch::sin(torch::arange(8 * 7, at::kDouble))
                     .view({8, 7})
                     .chunk(comm->size())[static_cast<std::size_t>(comm->rank())];
  for (int step = 0; step < 5; ++step) {
    accelerator.backward(model(x, false).square().mean());
    optimizer.step();
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

// How a training of three steps clips to a norm of 0.01.
enum class Clips { by_nobody, by_call, by_closure };

// Returns the weights, whole, after three steps of SGD that would be another without clipping.
std::vector<at::Tensor> train_clipped(const std::shared_ptr<Communicator>& comm, Clips clips,
                                      double max_norm = 0.01) {
  Accelerator accelerator({.communicator = comm});
  ShardedNet net(testing::ShardedNetOptions{});
  net->to(at::kDouble);
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.5));
  auto [model, optimizer] = accelerator.prepare(net, sgd);
  const auto x = torch::ones({4, 7}, at::kDouble);
  for (int step = 0; step < 3; ++step) {
    const auto compute = [&, &prepared = model] {
      const auto loss = prepared(x, false).square().mean();
      accelerator.backward(loss);
      return loss;
    };
    if (clips != Clips::by_closure) compute();
    if (clips == Clips::by_call) accelerator.clip_grad_norm_(net->parameters(), max_norm);
    optimizer.step(clips == Clips::by_closure ? AcceleratedOptimizer::Closure(compute) : nullptr);
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

double distance(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  double most = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    most = std::max(most, (left[i] - right[i]).abs().max().item<double>());
  return most;
}

class Zero : public ::testing::TestWithParam<const char*> {};

TEST_P(Zero, AStageTrainsAsOneProcess) {
  const auto expected = train(single_communicator());
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true");
  const ScopedEnv stage("ACCELERATE_DEEPSPEED_ZERO_STAGE", GetParam());
  const ScopedEnv clips_not("ACCELERATE_GRADIENT_CLIPPING", "0");
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    const auto found = train(comm);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LT((found[i] - expected[i]).abs().max().item<double>(), 1e-12) << i;
    }
  });
}

TEST_P(Zero, AStepClipsAsTheFileSaysUnlessTheLoopDoes) {
  const auto free = train_clipped(single_communicator(), Clips::by_nobody);
  const auto clipped = train_clipped(single_communicator(), Clips::by_call);
  ASSERT_GT(distance(free, clipped), 1e-3);
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true"),
      stage("ACCELERATE_DEEPSPEED_ZERO_STAGE", GetParam()),
      clipping("ACCELERATE_GRADIENT_CLIPPING", "0.01");
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    EXPECT_LT(distance(train_clipped(comm, Clips::by_nobody), clipped), 1e-12);
    EXPECT_LT(distance(train_clipped(comm, Clips::by_closure), clipped), 1e-12);
    EXPECT_LT(distance(train_clipped(comm, Clips::by_call, 1e9), free), 1e-12);
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, Zero, ::testing::Values("0", "1", "2", "3"),
                         [](const auto& info) { return std::string("Stage") + info.param; });

TEST(ZeroSettings, IsWhatTheAcceleratorSaysItIs) {
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true");
  EXPECT_EQ(Accelerator({.communicator = single_communicator()}).distributed_type(),
            DistributedType::DEEPSPEED);
}

TEST(ZeroSettings, ALayerOfExpertsThatTheModelLacksIsNamed) {
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true");
  const ScopedEnv classes("ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES", "MixtralMoe");
  Accelerator accelerator({.communicator = single_communicator()});
  ShardedNet net(testing::ShardedNetOptions{});
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "MixtralMoe",
                      message_of<ConfigError>([&] { (void)accelerator.prepare(net); }));
}

// Returns an Accelerator of one rank whose program names this file of DeepSpeed.
Accelerator accelerator_with(const std::string& json, AcceleratorOptions options = {}) {
  options.communicator = single_communicator();
  options.deepspeed_plugin = DeepSpeedPlugin{.hf_ds_config = json};
  return Accelerator(options);
}

TEST(DeepSpeedJson, AProgramsFileTrainsAndClipsAsTheLaunchersKeysDo) {
  const auto clipped = train_clipped(single_communicator(), Clips::by_call);
  const testing::TemporaryFolder folder;
  const auto file = folder.write("zero.json", R"({"zero_optimization": {"stage": 3},
    "gradient_clipping": 0.01, "gradient_accumulation_steps": "auto"})");
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true"),
      named("ACCELERATE_DEEPSPEED_CONFIG_FILE", file.c_str());
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    EXPECT_LT(distance(train_clipped(comm, Clips::by_nobody), clipped), 1e-12);
  });
}

TEST(DeepSpeedJson, DecidesPrecisionStepsAndLossScale) {
  const testing::LogCapture log;
  const auto accelerator = accelerator_with(
      R"({"zero_optimization": {"stage": 0}, "gradient_accumulation_steps": 4,
          "fp16": {"enabled": true, "initial_scale_power": 9, "hysteresis": 3}})");
  EXPECT_EQ(accelerator.distributed_type(), DistributedType::DEEPSPEED);
  EXPECT_EQ(accelerator.mixed_precision(), MixedPrecision::fp16);
  EXPECT_EQ(accelerator.gradient_accumulation_steps(), 4);
  ASSERT_NE(accelerator.scaler(), nullptr);
  EXPECT_EQ(accelerator.scaler()->get_scale(), 512);
  EXPECT_EQ(accelerator.scaler()->options().hysteresis, 3);
  EXPECT_EQ(accelerator.scaler()->options().growth_interval, 1000);
}

TEST(DeepSpeedJson, TheProgramsScalerReplacesTheFiles) {
  const auto accelerator =
      accelerator_with(R"({"zero_optimization": {"stage": 0}, "fp16": {"enabled": true}})",
                       {.grad_scaler = {.init_scale = 2}});
  EXPECT_EQ(accelerator.scaler()->options(), GradScalerKwargs{.init_scale = 2});
}

TEST(DeepSpeedJson, SaysThatTheProgramsStepsLose) {
  const testing::LogCapture log;
  const auto accelerator = accelerator_with(R"({"zero_optimization": {"stage": 1}})",
                                            {.gradient_accumulation_steps = 2});
  EXPECT_EQ(accelerator.gradient_accumulation_steps(), 1);
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines()[0].find("of DeepSpeed's settings is 1, and the program's "
                                "gradient_accumulation_steps 2: DeepSpeed's settings count"),
            std::string::npos);
}

TEST(DeepSpeedJson, HasNoPlaceForAnOptimizerOfItsOwnBesideTheProgramsOne) {
  auto accelerator =
      accelerator_with(R"({"zero_optimization": {"stage": 1}, "optimizer": {"type": "AdamW"}})");
  ShardedNet net(testing::ShardedNetOptions{});
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.5));
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring,
      "line 1: the file has the section optimizer, and the program prepares its own",
      message_of<ConfigError>([&] { (void)accelerator.prepare(net, sgd); }));
  EXPECT_NO_THROW((void)accelerator.prepare(net));
}

const char* const kWithSections = R"({"zero_optimization": {"stage": 2},
  "gradient_clipping": 0, "gradient_accumulation_steps": "auto",
  "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto", "eps": 1e-6}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto",
    "warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}})";

// Trains with an optimizer and a schedule of the program, or with those of the file.
std::vector<at::Tensor> train_scheduled(const std::shared_ptr<Communicator>& comm, bool by_file) {
  AcceleratorOptions options{.communicator = comm};
  if (by_file) options.deepspeed_plugin = DeepSpeedPlugin{.hf_ds_config = kWithSections};
  Accelerator accelerator(options);
  ShardedNet net(testing::ShardedNetOptions{});
  net->to(at::kDouble);
  torch::optim::AdamW adamw(net->parameters(),
                            torch::optim::AdamWOptions(0.01).weight_decay(0.1).eps(1e-6));
  DummyOptim dummy(net->parameters(), {.lr = 0.01, .weight_decay = 0.1});
  torch::optim::Optimizer& given = by_file ? static_cast<torch::optim::Optimizer&>(dummy) : adamw;
  std::shared_ptr<LRScheduler> schedule;
  if (by_file)  // Steps of two ranks together.
    schedule = std::make_shared<DummyScheduler>(
        given, DummySchedulerOptions{.total_num_steps = 12, .warmup_num_steps = 3});
  else
    schedule = make_deepspeed_schedule(
        "WarmupDecayLR", adamw,
        {.total_num_steps = 6, .warmup_max_lr = 0.01, .warmup_num_steps = 3});
  auto [model, optimizer, scheduler] = accelerator.prepare(net, given, schedule);
  const auto x = torch::sin(torch::arange(4 * 7, at::kDouble)).view({4, 7});
  for (int step = 0; step < 5; ++step) {
    accelerator.backward(model(x, false).square().mean());
    optimizer.step();
    scheduler.step();
    optimizer.zero_grad();
  }
  const auto whole = model.summon_full_params({.writeback = false});
  std::vector<at::Tensor> weights;
  for (const auto& parameter : net->parameters()) weights.push_back(parameter.detach().clone());
  return weights;
}

TEST(DeepSpeedJson, ItsOptimizerAndScheduleTrainAsTheProgramsOwn) {
  const auto expected = train_scheduled(single_communicator(), false);
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    EXPECT_LT(distance(train_scheduled(comm, true), expected), 1e-12);
  });
}

// Returns the optimizer that a file with this section makes.
torch::optim::Optimizer& made_from(DummyOptim& dummy, const std::string& section) {
  return dummy.made_from(read_deepspeed_file("{\"optimizer\": " + section + "}"));
}

TEST(DeepSpeedJson, MakesTheOptimizerThatTheFileNames) {
  const std::vector<at::Tensor> weights = {torch::ones({2}).requires_grad_()};
  const auto is = [&]<typename O>(const char* section, const O*) {
    DummyOptim dummy(weights);
    return dynamic_cast<const O*>(&made_from(dummy, section)) != nullptr;
  };
  using torch::optim::Adagrad, torch::optim::Adam, torch::optim::AdamW, torch::optim::SGD;
  EXPECT_TRUE(is(R"({"type": "Adam"})", static_cast<AdamW*>(nullptr)));
  EXPECT_TRUE(
      is(R"({"type": "Adam", "params": {"adam_w_mode": false}})", static_cast<Adam*>(nullptr)));
  EXPECT_TRUE(is(R"({"type": "SGD", "params": {"momentum": 0.9}})", static_cast<SGD*>(nullptr)));
  EXPECT_TRUE(is(R"({"type": "adagrad"})", static_cast<Adagrad*>(nullptr)));
  EXPECT_TRUE(
      is(R"({"type": "Lion", "params": {"betas": [0.9, 0.98]}})", static_cast<Lion*>(nullptr)));
  DummyOptim dummy(weights, {.lr = 0.5});
  EXPECT_EQ(made_from(dummy, R"({"type": "AdamW", "params": {"lr": "auto"}})")
                .param_groups()[0]
                .options()
                .get_lr(),
            0.5);
}

TEST(DeepSpeedJson, RefusesOptimizersThatAreNotBuiltAndOptionsOfOthers) {
  const auto refusal_of_section = [](const char* section) {
    DummyOptim dummy({torch::ones({2}).requires_grad_()});
    return message_of<ConfigError>([&] { (void)made_from(dummy, section); });
  };
  for (const auto& [section, part] : std::vector<std::pair<const char*, const char*>>{
           {R"({"type": "Lamb"})", "optimizer.type is 'Lamb', an algorithm that is not built"},
           {R"({"type": "Muon", "params": {"ns_method": "polar"}})",
            "ns_method is \"polar\"; allowed is one of gram, standard"},
           {R"({"type": "Muon", "params": {"per_head_muon": true}})",
            "per_head_muon is true, which"},
           {R"({"type": "Muon", "params": {"nesterov": true}})",
            "optimizer.params.nesterov is no option of Muon"},
           {R"({"type": "SGD", "params": {"betas": [0.9, 0.9]}})",
            "optimizer.params.betas is no option of SGD"},
           {R"({"type": "AdamW", "params": {"betas": [0.9]}})", "betas has 1 number; allowed are"}})
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, refusal_of_section(section));
}

TEST(DeepSpeedJson, MuonNeedsAModelThatNamesItsParameters) {
  DummyOptim dummy({torch::ones({2, 2}).requires_grad_()});
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "a parameter of no prepared model: prepare the model before",
      message_of<UsageError>([&] { (void)made_from(dummy, R"({"type": "Muon"})"); }));
}

TEST(DeepSpeedJson, MuonIsForMatricesThatAreNoEmbeddings) {
  for (const int stage : {0, 2}) {
    torch::nn::Sequential net;
    net->push_back("Embed_in", torch::nn::Linear(4, 6));
    net->push_back("inner", torch::nn::Linear(6, 5));
    net->push_back("lm_head", torch::nn::Linear(5, 3));
    auto accelerator =
        accelerator_with(R"({"zero_optimization": {"stage": )" + std::to_string(stage) +
                         R"(}, "optimizer": {"type": "Muon", "params":
        {"lr": 0.5, "muon_lr": 0.25, "weight_decay": "auto"}}})");
    DummyOptim dummy(net->parameters(), {.weight_decay = 0.125});
    auto [model, optimizer] = accelerator.prepare(net, dummy);
    auto& muon = dynamic_cast<MuonWithAuxAdam&>(optimizer.optimizer());
    EXPECT_EQ(muon.clips_updates(), stage > 0);
    ASSERT_EQ(muon.param_groups().size(), 2U);
    const auto options = [&](std::size_t group) {
      return static_cast<MuonWithAuxAdamOptions&>(muon.param_groups()[group].options());
    };
    EXPECT_TRUE(options(0).use_muon());
    EXPECT_EQ(muon.param_groups()[0].params().size(), 1U);  // inner.weight
    EXPECT_EQ(options(0).lr(), 0.25);
    EXPECT_FALSE(options(1).use_muon());
    EXPECT_EQ(options(1).lr(), 0.5);
    EXPECT_EQ(options(1).weight_decay(), 0.125);
    EXPECT_EQ(options(1).betas(), std::make_tuple(0.9, 0.95));  // DeepSpeed's.
  }
}

TEST(DeepSpeedJson, AStandInNeedsASectionToStandFor) {
  auto accelerator = accelerator_with(R"({"zero_optimization": {"stage": 1}})");
  ShardedNet net(testing::ShardedNetOptions{});
  DummyOptim dummy(net->parameters());
  EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                      "a DummyOptim stands for the section optimizer of DeepSpeed's file",
                      message_of<ConfigError>([&] { (void)accelerator.prepare(net, dummy); }));
  EXPECT_THROW(dummy.step(), UsageError);
  DummyScheduler schedule(dummy);
  EXPECT_THROW(schedule.step(), UsageError);
  auto other = accelerator_with(kWithSections);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "before its DummyOptim",
                      message_of<UsageError>([&] { (void)other.prepare(schedule); }));
}

TEST(DeepSpeedJson, ComparesItsBatchWithTheFirstLoader) {
  auto accelerator = accelerator_with(
      R"({"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 4})");
  const testing::LogCapture log;
  torch::data::datasets::TensorDataset dataset(std::vector<at::Tensor>(12, torch::ones({2})));
  auto same = accelerator.prepare(make_data_loader(dataset, {.batch_size = 4}));
  auto evaluation = accelerator.prepare(make_data_loader(dataset, {.batch_size = 6}));
  EXPECT_TRUE(log.lines().empty());
  auto other = accelerator_with(
      R"({"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 4})");
  auto training = other.prepare(make_data_loader(dataset, {.batch_size = 6}));
  ASSERT_EQ(log.lines().size(), 1U);
  EXPECT_NE(log.lines()[0].find("gives each rank 6 samples in a batch, and"), std::string::npos);
}

// Returns an Accelerator of two plugins: the student clips and accumulates, the teacher does not.
Accelerator student_and_teacher(const std::shared_ptr<Communicator>& comm) {
  return Accelerator(
      {.deepspeed_plugins =
           {{"student",
             {.gradient_accumulation_steps = 2, .gradient_clipping = 0.01, .zero_stage = 0}},
            {"teacher", {.gradient_clipping = 0.0, .zero_stage = 3}}},
       .communicator = comm});
}

TEST(DeepSpeedPlugins, ModelsAreShardedByThePluginThatWasActive) {
  run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& comm) {
    auto accelerator = student_and_teacher(comm);
    ShardedNet student(testing::ShardedNetOptions{}), teacher(testing::ShardedNetOptions{});
    EXPECT_EQ(accelerator.deepspeed_plugin()->zero_stage, 0);
    auto by_first = accelerator.prepare(student);
    accelerator.select_deepspeed_plugin("teacher");
    EXPECT_EQ(accelerator.deepspeed_plugin(), &accelerator.get_deepspeed_plugin("teacher"));
    auto by_second = accelerator.prepare(teacher);
    const auto slices_of = [](const auto& model) {
      return model.core()->parallel().inspection->memory().slice_bytes;
    };
    EXPECT_GT(2 * slices_of(by_first), 3 * slices_of(by_second));  // Whole, and about a half.
  });
}

TEST(DeepSpeedPlugins, AnOptimizerClipsByThePluginThatWasActive) {
  auto accelerator = student_and_teacher(single_communicator());
  const auto moved = [&] {
    const auto weight = torch::zeros({3}, at::kDouble).requires_grad_();
    torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(1));
    auto optimizer = accelerator.prepare(sgd);
    accelerator.select_deepspeed_plugin("student");  // Changes nothing of what is prepared.
    accelerator.set_gradient_accumulation_steps(1);
    weight.mutable_grad() = torch::ones({3}, at::kDouble);
    optimizer.step();
    return weight.detach().norm().item<double>();
  };
  EXPECT_EQ(accelerator.gradient_accumulation_steps(), 2);
  EXPECT_NEAR(moved(), 0.01, 1e-6);
  accelerator.select_deepspeed_plugin("teacher");
  EXPECT_EQ(accelerator.gradient_accumulation_steps(), 1);
  EXPECT_NEAR(moved(), std::sqrt(3), 1e-6);
}

TEST(DeepSpeedPlugins, RefuseNamesThatAreNotThereAndPluginsThatDisagree) {
  auto accelerator = student_and_teacher(single_communicator());
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "the names are student, teacher. Did you mean 'teacher'?",
      message_of<UsageError>([&] { accelerator.select_deepspeed_plugin("techer"); }));
  const auto refusal_of_plugins = [](std::vector<std::pair<std::string, DeepSpeedPlugin>> plugins) {
    return message_of<ConfigError>([&] {
      (void)Accelerator({.deepspeed_plugins = plugins, .communicator = single_communicator()});
    });
  };
  const auto file = [](const std::string& more) {
    return DeepSpeedPlugin{.hf_ds_config = "{\"zero_optimization\": {\"stage\": 1}" + more + "}"};
  };
  for (const auto& [message, part] : std::vector<std::pair<std::string, const char*>>{
           {refusal_of_plugins({{"a", {}}, {"a", {}}}), "has 'a' as a name; allowed are different"},
           {refusal_of_plugins({{"", {}}}), "has '' as a name"},
           {refusal_of_plugins({{"a", {}}, {"b", {.zero_stage = 4}}}), "'b' is refused"},
           {refusal_of_plugins({{"a", file("")}, {"b", file(R"(, "bf16": {"enabled": true})")}}),
            "'a' and 'b' ask for mixed precision no and bf16"},
           {refusal_of_plugins({{"a", file(R"(, "fp16": {"enabled": true})")},
                                {"b", file(R"(, "fp16": {"enabled": true, "hysteresis": 4})")}}),
            "have different sections fp16"}})
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, part, message);
  EXPECT_EQ(Accelerator({.communicator = single_communicator()}).deepspeed_plugin(), nullptr);
}

TEST(DeepSpeedJson, ExcludesFsdp) {
  EXPECT_PRED_FORMAT2(
      ::testing::IsSubstring, "deepspeed_plugin is given, and fsdp_plugin is too",
      message_of<ConfigError>(
          [] { (void)accelerator_with("{}", {.fsdp_plugin = FullyShardedDataParallelPlugin{}}); }));
}

// Otherwise the step would use an Accelerator that is gone.
TEST(ZeroSettings, AnOptimizerThatOutlivesItsAcceleratorClipsNoMore) {
  const ScopedEnv deepspeed("ACCELERATE_USE_DEEPSPEED", "true"),
      clipping("ACCELERATE_GRADIENT_CLIPPING", "0.01");
  const auto weight = torch::zeros({3}, at::kDouble).requires_grad_();
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(1));
  std::optional<Accelerator> accelerator(AcceleratorOptions{.communicator = single_communicator()});
  auto optimizer = accelerator->prepare(sgd);
  const auto step = [&] {
    weight.mutable_grad() = torch::ones({3}, at::kDouble);
    optimizer.step();
  };
  step();
  EXPECT_NEAR(weight.detach().norm().item<double>(), 0.01, 1e-6);
  accelerator.reset();
  step();
  EXPECT_GT(weight.detach().norm().item<double>(), 1);
}

}  // namespace
}  // namespace accelerate
