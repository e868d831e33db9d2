// Trainings of Python Accelerate under DeepSpeed that go on here, without sharding and under ZeRO,
// on another number of ranks: tests/reference/deepspeed_folders.py trains, saves and goes on.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "accelerate/accelerate.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/formats/shards/state_for_deepspeed.h"
#include "accelerate/optim/schedules/deepspeed_schedules.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/deepspeed_folders.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;
using testing::deepspeed_cases;
using testing::deepspeed_folders;
using testing::message_of;
using testing::run_ranks_shared;
using testing::TemporaryFolder;

constexpr int kDeepSpeedSteps = 5, kDeepSpeedRows = 4, kDeepSpeedColumns = 5, kDeepSpeedWidth = 7;

at::Tensor deepspeed_waves(std::int64_t count, double start, double pace) {
  return torch::sin(torch::arange(count, at::kDouble) * pace + start).to(at::kFloat);
}

// The net of the script. Its weights are other ones until a state is loaded.
struct TiedLinearImpl : torch::nn::Module {
  explicit TiedLinearImpl(const at::Tensor& shared)
      : weight(register_parameter("weight", shared)),
        bias(register_parameter("bias", torch::zeros({shared.size(0)}))) {}
  at::Tensor forward(const at::Tensor& x) { return torch::linear(x, weight, bias); }
  at::Tensor weight, bias;
};
TORCH_MODULE(TiedLinear);

struct DeepSpeedNetImpl : torch::nn::Module {
  DeepSpeedNetImpl() {
    first = register_module("first", torch::nn::Linear(kDeepSpeedColumns, kDeepSpeedWidth));
    norm = register_module("norm",
                           torch::nn::LayerNorm(torch::nn::LayerNormOptions({kDeepSpeedWidth})));
    frozen = register_module("frozen", torch::nn::Linear(kDeepSpeedWidth, kDeepSpeedWidth));
    last = register_module(
        "last", torch::nn::Linear(torch::nn::LinearOptions(kDeepSpeedWidth, 3).bias(false)));
    tied = register_module("tied", TiedLinear(last->weight));
    scale = register_buffer("scale", torch::zeros({1}));
    count = register_buffer("count", torch::tensor(0));
    for (auto& leaf : frozen->parameters()) leaf.requires_grad_(false);
  }
  at::Tensor forward(const at::Tensor& x) {
    auto hidden = torch::tanh(norm(first(x)));
    hidden = torch::tanh(frozen(hidden)) * scale;
    return last(hidden) + tied(hidden);
  }
  torch::nn::Linear first{nullptr}, frozen{nullptr}, last{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  TiedLinear tied{nullptr};
  at::Tensor scale, count;
};
TORCH_MODULE(DeepSpeedNet);

std::vector<torch::optim::OptimizerParamGroup> trained_groups(DeepSpeedNetImpl& net, bool two) {
  const std::vector<at::Tensor> all = {net.first->weight, net.first->bias,  net.norm->weight,
                                       net.norm->bias,    net.last->weight, net.tied->bias};
  if (!two) return {torch::optim::OptimizerParamGroup(all)};
  std::vector<at::Tensor> vectors, matrices;
  for (const auto& leaf : all) (leaf.dim() == 1 ? vectors : matrices).push_back(leaf);
  return {torch::optim::OptimizerParamGroup(vectors), torch::optim::OptimizerParamGroup(matrices)};
}

// With other numbers than the saved ones.
std::shared_ptr<torch::optim::Optimizer> optimizer_named(
    const std::string& name, const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  using namespace torch::optim;
  if (name == "Adam") return std::make_shared<Adam>(groups, AdamOptions(0.5));
  if (name.ends_with("SGD")) return std::make_shared<SGD>(groups, SGDOptions(0.5).momentum(0.1));
  if (name == "Adagrad") return std::make_shared<Adagrad>(groups, AdagradOptions(0.5));
  return std::make_shared<AdamW>(groups, AdamWOptions(0.5));
}

AcceleratorOptions options_for(const std::shared_ptr<Communicator>& ranks, int stage, bool clips) {
  AcceleratorOptions options;
  options.communicator = ranks;
  options.step_scheduler_with_optimizer = false;
  if (stage >= 0)
    options.deepspeed_plugin =
        DeepSpeedPlugin{.gradient_clipping = clips ? 1.0 : 0.0, .zero_stage = stage};
  return options;
}

// `stage`: -1 trains without sharding.
struct DeepSpeedTraining {
  DeepSpeedTraining(const Json& row, const std::shared_ptr<Communicator>& ranks, int stage)
      : row(row),
        zero(stage >= 0),
        accelerator(options_for(ranks, stage, clips())),
        optimizer(optimizer_named(row["optimizer"], trained_groups(*net, row.contains("groups")))) {
    model.emplace(accelerator.prepare(net));
    prepared.emplace(accelerator.prepare(*optimizer));
    if (row.value("schedule", "") == "WarmupLR") {
      const auto warmup = make_deepspeed_schedule("WarmupLR", *optimizer,
                                                  {.warmup_max_lr = 0.02, .warmup_num_steps = 8});
      schedule.emplace(accelerator.prepare(warmup));
    }
  }

  // Accelerate clips by default, and so the script's trainings; the ones in plain PyTorch do not.
  [[nodiscard]] bool clips() const { return row["dtype"] == "fp32"; }

  // This rank's share of the rows that all ranks had in Python.
  [[nodiscard]] std::pair<at::Tensor, at::Tensor> batch(int step) const {
    std::vector<at::Tensor> xs, targets;
    for (int rank = 0; rank < row["ranks"].get<int>(); ++rank) {
      const double start = 0.1 + step + 10 * rank + row["seed"].get<double>();
      xs.push_back(deepspeed_waves(kDeepSpeedRows * kDeepSpeedColumns, start, 0.37)
                       .view({kDeepSpeedRows, kDeepSpeedColumns}));
      targets.push_back(xs.back().narrow(1, 0, 3) * xs.back().sum(1, /*keepdim=*/true));
    }
    const int ranks = accelerator.num_processes(), own = accelerator.process_index();
    return {torch::cat(xs).chunk(ranks)[own], torch::cat(targets).chunk(ranks)[own]};
  }

  std::vector<double> go_on(int first = kDeepSpeedSteps) {
    std::vector<double> losses;
    for (int step = first; step < first + kDeepSpeedSteps; ++step) {
      const auto [x, target] = batch(step);
      const auto loss = torch::mse_loss((*model)(x), target);
      accelerator.backward(loss);
      if (clips() && !zero) accelerator.clip_grad_norm_(net->parameters(), 1.0);
      prepared->step();
      if (schedule) schedule->step();
      prepared->zero_grad();
      losses.push_back(accelerator.reduce(loss.detach(), ReduceOp::mean).item<double>());
    }
    return losses;
  }

  Json row;
  bool zero;  // The plugin clips by itself.
  Accelerator accelerator;
  DeepSpeedNet net;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::optional<Prepared<DeepSpeedNet>> model;
  std::optional<AcceleratedOptimizer> prepared;
  std::optional<AcceleratedScheduler> schedule;
};

Json row_of(const std::string& name) {
  return Json::parse(testing::file_text(deepspeed_folders() / name / "run.json"));
}

void expect_goes_on(const std::string& name, const std::shared_ptr<Communicator>& ranks,
                    int stage) {
  const Json row = row_of(name);
  // A schedule of PyTorch's moves once a rank. A folder without frozen parameters lacks weights.
  if (row.value("schedule", "") == "StepLR" || row.contains("exclude_frozen")) return;
  DeepSpeedTraining training(row, ranks, stage);
  training.accelerator.load_state(deepspeed_folders() / name / "state");
  const auto losses = training.go_on();
  for (std::size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], row["losses"][i].get<double>(), 1e-5)
        << name << " step " << i << " stage " << stage;
  for (const auto& [tensor, held] : training.accelerator.get_state_dict(*training.model)) {
    const auto there = row["weights"][tensor].get<std::vector<double>>();
    const auto wanted = torch::tensor(there, at::kDouble).view_as(held);
    EXPECT_LT((held.to(at::kDouble) - wanted).abs().max().item<double>(), 2e-5)
        << name << " " << tensor << " stage " << stage;
  }
}

TEST(PythonDeepSpeed, GoesOnWithoutShardingOnOneRank) {
  for (const auto& name : deepspeed_cases()) expect_goes_on(name, single_communicator(), -1);
}

TEST(PythonDeepSpeed, GoesOnUnderAnyStageOfZeroOnTwoRanks) {
  int i = 0;
  for (const auto& name : deepspeed_cases()) {
    if (row_of(name)["ranks"] != 2) continue;
    const int stage = i++ % 4;
    run_ranks_shared(
        2, [&](const std::shared_ptr<Communicator>& ranks) { expect_goes_on(name, ranks, stage); });
  }
}

TEST(PythonDeepSpeed, GoesOnUnderZero3OnOtherNumbersOfRanks) {
  for (const int count : {1, 2, 3, 4}) {
    run_ranks_shared(count, [&](const std::shared_ptr<Communicator>& ranks) {
      expect_goes_on("zero3_three_ranks", ranks, 3);
    });
  }
}

TEST(PythonDeepSpeed, WeightsAreLoadedIntoAModelByThemselves) {
  for (const auto& name : deepspeed_cases()) {
    const Path merged = deepspeed_folders() / name / "merged.safetensors";
    if (!std::filesystem::exists(merged) || row_of(name).contains("exclude_frozen")) continue;
    DeepSpeedNet net;
    load_checkpoint_in_model(*net, deepspeed_folders() / name / "state");
    std::map<std::string, at::Tensor> own;
    for (const auto& [tensor, held] : state_dict(view_of(*net))) own.emplace(tensor, held);
    for (const auto& [tensor, held] : load_tensors(merged))
      EXPECT_TRUE(torch::equal(own.at(tensor), held)) << name << " " << tensor;
  }
}

// The folder in which each case gets its universal checkpoint, and the losses that follow here:
// deepspeed_folders_live.py lets DeepSpeed go on from it. Otherwise `home`.
Path folder_for_deepspeed(const TemporaryFolder& home, const std::string& name) {
  const char* const wanted = std::getenv("ACCELERATE_UNIVERSAL_FOLDERS");
  const Path folder = (wanted == nullptr ? home.path() : Path(wanted)) / name;
  std::filesystem::create_directories(folder);
  return folder;
}

// What came from DeepSpeed trains on here, goes back, and is what was written.
TEST(PythonDeepSpeed, GoesBackAsAUniversalCheckpoint) {
  for (const auto& name : deepspeed_cases()) {
    const Json row = row_of(name);
    if (row["stage"] == 0 || row["dtype"] != "fp32" || row.contains("exclude_frozen") ||
        row.value("schedule", "") == "StepLR")
      continue;
    const TemporaryFolder home;
    const Path folder = folder_for_deepspeed(home, name);
    DeepSpeedTraining training(row, single_communicator(), -1);
    training.accelerator.load_state(deepspeed_folders() / name / "state");
    training.go_on();
    training.accelerator.save_state(home.path() / "here");
    const auto said = write_state_for_deepspeed(home.path() / "here", folder / "universal");
    EXPECT_EQ(said.written.front(), "pytorch_model");
    DeepSpeedTraining again(row, single_communicator(), -1);
    again.accelerator.load_state(folder / "universal");
    const auto losses = training.go_on(2 * kDeepSpeedSteps);
    EXPECT_EQ(again.go_on(2 * kDeepSpeedSteps), losses) << name;
    std::ofstream(folder / "losses.json") << Json(losses);
  }
}

struct Unfit {
  const char* what;
  std::function<void(Json& row)> change;
  const char* says;
};

TEST(PythonDeepSpeed, WhatDoesNotFitIsRefusedAndNothingChanged) {
  const Unfit rows[] = {
      {"another class", [](Json& row) { row["optimizer"] = "SGD"; },
       "the file has the state of AdamW, the optimizer is SGD"},
      {"two groups", [](Json& row) { row["groups"] = true; },
       "the file has 1 parameter groups, the optimizer 2"},
      {"a schedule more", [](Json& row) { row["schedule"] = "WarmupLR"; },
       "it has no scheduler.bin"},
  };
  for (const auto& [what, change, says] : rows) {
    Json row = row_of("zero2_fp32");
    change(row);
    DeepSpeedTraining training(row, single_communicator(), -1);
    const auto before = training.net->first->weight.clone();
    const auto message = message_of<CheckpointError>(
        [&] { training.accelerator.load_state(deepspeed_folders() / "zero2_fp32" / "state"); });
    EXPECT_TRUE(std::regex_search(message, std::regex(says))) << what << ": " << message;
    EXPECT_TRUE(torch::equal(before, training.net->first->weight)) << what;
  }
}

TEST(PythonDeepSpeed, AModelMoreThanHereIsRefused) {
  const TemporaryFolder home;
  const auto options = std::filesystem::copy_options::recursive;
  const Path state = home.path() / "state";
  std::filesystem::copy(deepspeed_folders() / "zero2_fp32" / "state", state, options);
  std::filesystem::copy(state / "pytorch_model", state / "pytorch_model_1", options);
  DeepSpeedTraining training(row_of("zero2_fp32"), single_communicator(), -1);
  const auto message = message_of<CheckpointError>([&] { training.accelerator.load_state(state); });
  EXPECT_TRUE(std::regex_search(message,
                                std::regex("it has pytorch_model_1, for which there is no object")))
      << message;
}

}  // namespace
}  // namespace accelerate
