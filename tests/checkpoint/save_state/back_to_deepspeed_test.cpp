// What a universal checkpoint of DeepSpeed gets of Lion, of the loss scaler, and of a Trainer's
// folder. tests/transformers/trainer/deepspeed_live.py lets DeepSpeed itself go on from such folders.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"
#include "accelerate/formats/shards/deepspeed_checkpoint.h"
#include "accelerate/formats/shards/state_for_deepspeed.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/muon.h"
#include "tests/formats/deepspeed_support.h"
#include "tests/formats/merge_support.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Path = std::filesystem::path;
using testing::TemporaryFolder;

// A training in fp16 whose scale has overflowed once.
class HalfTraining {
 public:
  explicit HalfTraining(const std::string& fp16)
      : accelerator_({.deepspeed_plugin =
                          DeepSpeedPlugin{.hf_ds_config = R"({"zero_optimization": {"stage": 2},
                            "fp16": {"enabled": true, )" + fp16 +
                                                          "}}"},
                      .communicator = single_communicator()}) {
    torch::manual_seed(3);
    net_ = torch::nn::Linear(3, 2);
    lion_ = std::make_unique<Lion>(net_->parameters(), LionOptions(0.01));
    model_.emplace(accelerator_.prepare(net_));
    optimizer_.emplace(accelerator_.prepare(*lion_));
  }

  void step(double factor) {
    const auto loss = (*model_)(torch::ones({4, 3})).square().mean() * factor;
    accelerator_.backward(loss);
    optimizer_->step();
    optimizer_->zero_grad();
  }

  Accelerator& accelerator() { return accelerator_; }
  [[nodiscard]] double scale() const { return accelerator_.scaler()->get_scale(); }

 private:
  const testing::ScopedEnv sixteen_bits_{"ACCELERATE_CPU_HALF", "native"};
  const testing::LogCapture log_;
  Accelerator accelerator_;
  torch::nn::Linear net_{nullptr};
  std::unique_ptr<Lion> lion_;
  std::optional<Prepared<torch::nn::Linear>> model_;
  std::optional<AcceleratedOptimizer> optimizer_;
};

detail::DeepSpeedValue scaler_in(const DeepSpeedCheckpoint& saved) {
  return saved.optimizer_state().at("loss_scaler");
}

double attribute_of(const detail::DeepSpeedValue& object, const char* name) {
  const TorchValue* value = object.value->attribute(name);
  if (value == nullptr) ADD_FAILURE() << "there is no " << name;
  if (value == nullptr) return 0;
  if (const auto* whole = value->as<std::int64_t>()) return static_cast<double>(*whole);
  if (const auto* flag = value->as<bool>()) return *flag ? 1 : 0;
  return *value->as<double>();
}

TEST(BackToDeepSpeed, TheLossScalerKeepsTheFilesMinimumAndHysteresis) {
  const TemporaryFolder home;
  HalfTraining training(
      R"("initial_scale_power": 6, "hysteresis": 3, "min_loss_scale": 4, "loss_scale_window": 7)");
  training.step(1e30);
  training.step(1);
  training.step(1);
  training.accelerator().save_state(home.path() / "here");
  write_state_for_deepspeed(home.path() / "here", home.path() / "there");
  const auto saved = DeepSpeedCheckpoint::open(home.path() / "there");
  const auto scaler = scaler_in(saved);
  const std::vector<std::pair<const char*, double>> wanted = {
      {"cur_scale", 64},     {"min_scale", 4},    {"delayed_shift", 3},
      {"cur_hysteresis", 2}, {"scale_window", 7}, {"scale_factor", 2},
      {"dynamic", 1},        {"cur_iter", 2},     {"last_overflow_iter", -1}};
  for (const auto& [name, value] : wanted) EXPECT_EQ(attribute_of(scaler, name), value) << name;

  HalfTraining again(R"("hysteresis": 3, "min_loss_scale": 4, "loss_scale_window": 7)");
  again.accelerator().load_state(home.path() / "there");
  for (int i = 0; i < 12; ++i) {
    const double factor = i % 4 == 0 ? 1e30 : 1;
    training.step(factor);
    again.step(factor);
    EXPECT_EQ(again.scale(), training.scale()) << "step " << i;
  }
}

TEST(BackToDeepSpeed, AScaleThatNeverMovesStaysSo) {
  const TemporaryFolder home;
  HalfTraining training(R"("loss_scale": 32)");
  training.step(1);
  training.accelerator().save_state(home.path() / "here");
  write_state_for_deepspeed(home.path() / "here", home.path() / "there");
  const auto saved = DeepSpeedCheckpoint::open(home.path() / "there");
  EXPECT_EQ(attribute_of(scaler_in(saved), "cur_scale"), 32);
  EXPECT_EQ(scaler_in(saved).value->attribute("scale_window"), nullptr);
  EXPECT_EQ(saved.optimizer_state().at("dynamic_loss_scale").value->as<bool>() != nullptr, true);
  HalfTraining again(R"("loss_scale": 32)");
  again.accelerator().load_state(home.path() / "there");
  EXPECT_EQ(again.scale(), 32);
}

TEST(BackToDeepSpeed, LionHasDeepSpeedsNamesAndGoesOn) {
  const TemporaryFolder home;
  HalfTraining training(R"("initial_scale_power": 4)");
  training.step(1);
  training.accelerator().save_state(home.path() / "here");
  write_state_for_deepspeed(home.path() / "here", home.path() / "there");
  const Path weight = home.path() / "there/pytorch_model/zero/weight";
  for (const char* name : {"fp32.pt", "exp_avg.pt", "exp_avg_sq.pt", "step.pt"})
    EXPECT_TRUE(std::filesystem::exists(weight / name)) << name;
  EXPECT_FALSE(std::filesystem::exists(weight / "state1.pt"));
  HalfTraining again(R"("initial_scale_power": 4)");
  again.accelerator().load_state(home.path() / "there");
  again.accelerator().save_state(home.path() / "again");
  for (const char* name : {"optimizer.json", "scaler.json"})
    EXPECT_EQ(testing::file_text(home.path() / "here" / name),
              testing::file_text(home.path() / "again" / name));
}

TEST(BackToDeepSpeed, MuonIsRefusedByName) {
  const TemporaryFolder home;
  Accelerator accelerator({.communicator = single_communicator()});
  torch::nn::Linear net(torch::nn::LinearOptions(3, 2).bias(false));
  Muon muon(net->parameters());
  auto model = accelerator.prepare(net);
  auto optimizer = accelerator.prepare(muon);
  accelerator.backward(model(torch::ones({4, 3})).square().mean());
  optimizer.step();
  accelerator.save_state(home.path() / "here");
  try {
    write_state_for_deepspeed(home.path() / "here", home.path() / "there");
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, "optimizer.json has the state of Muon",
                        error.what());
  }
  EXPECT_FALSE(std::filesystem::exists(home.path() / "there"));
}

// DeepSpeed asks for moments of each parameter, and under ZeRO 3 for a count of steps.
TEST(BackToDeepSpeed, AnOptimizerThatHasNotSteppedHasZeros) {
  const TemporaryFolder home;
  HalfTraining training(R"("initial_scale_power": 4, "hysteresis": 1)");
  training.step(1e30);
  training.accelerator().save_state(home.path() / "here");
  write_state_for_deepspeed(home.path() / "here", home.path() / "there");
  const auto saved = DeepSpeedCheckpoint::open(home.path() / "there");
  const auto tensors = testing::tensors_of(saved.optimizer().tensors);
  ASSERT_EQ(tensors.size(), 4U);
  for (const auto& [name, tensor] : tensors)
    EXPECT_EQ(tensor.bytes, std::string(tensor.bytes.size(), '\0')) << name;
  HalfTraining again(R"("initial_scale_power": 4, "hysteresis": 1)");
  again.accelerator().load_state(home.path() / "there");
  EXPECT_EQ(again.scale(), training.scale());
}

TEST(BackToDeepSpeed, ATrainersFolderKeepsItsNamesAndItsOwnState) {
  const TemporaryFolder home;
  HalfTraining training(R"("initial_scale_power": 4)");
  training.step(1);
  const Path here = home.path() / "checkpoint-7";
  training.accelerator().save_state(here);
  const std::string state = R"({"global_step": 7, "log_history": [{"grad_norm": NaN, "step": 7}]})";
  std::ofstream(here / "trainer_state.json") << state;
  for (const char* name : {"config.json", "tokenizer.json", "training_loop.json"})
    std::ofstream(here / name) << "{}";
  std::filesystem::remove(here / "manifest.json");
  testing::add_manifest(here);
  const Path there = home.path() / "out/checkpoint-7";
  const auto said = write_state_for_deepspeed(here, there);
  EXPECT_EQ(said.written.front(), "global_step7");
  EXPECT_EQ(testing::file_text(there / "latest_universal"), "global_step7");
  EXPECT_EQ(testing::file_text(there / "trainer_state.json"), state);
  for (const char* name : {"config.json", "tokenizer.json"})
    EXPECT_TRUE(std::filesystem::exists(there / name)) << name;
  for (const char* name : {"training_loop.json", "optimizer.json", "manifest.json"})
    EXPECT_FALSE(std::filesystem::exists(there / name)) << name;
  HalfTraining again(R"("initial_scale_power": 4)");
  again.accelerator().load_state(there);
  EXPECT_EQ(again.scale(), training.scale());
}

TEST(BackToDeepSpeed, ATrainersStateWithoutAStepIsRefused) {
  const TemporaryFolder home;
  HalfTraining training(R"("initial_scale_power": 4)");
  training.accelerator().save_state(home.path() / "here");
  std::ofstream(home.path() / "here/trainer_state.json") << R"({"global_step": -1})";
  std::filesystem::remove(home.path() / "here/manifest.json");
  testing::add_manifest(home.path() / "here");
  EXPECT_THROW(write_state_for_deepspeed(home.path() / "here", home.path() / "out"),
               CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(home.path() / "out"));
}

}  // namespace
}  // namespace accelerate
