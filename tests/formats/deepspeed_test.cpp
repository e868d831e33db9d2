// Checkpoints of DeepSpeed: what is read of them equals what DeepSpeed itself says.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "accelerate/formats/shards/deepspeed_checkpoint.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "tests/formats/deepspeed_support.h"
#include "tests/support/deepspeed_folders.h"
#include "tests/support/files.h"

namespace accelerate {
namespace {

using testing::deepspeed_cases;
using testing::deepspeed_folders;
using testing::HeldTensor;
using testing::HeldTensors;
using testing::TemporaryFolder;
using testing::tensors_of;
using Path = std::filesystem::path;
using Json = nlohmann::json;

HeldTensors tensors_in(const Path& file) {
  const auto opened = SafetensorsFile::open(file);
  HeldTensors all;
  for (const auto& stored : opened.tensors())
    all[stored.name] = {stored,
                        {reinterpret_cast<const char*>(stored.bytes.data()), stored.bytes.size()}};
  return all;
}

void expect_equal(const HeldTensor& here, const HeldTensor& there, const std::string& what) {
  EXPECT_EQ(here.spec.dtype, there.spec.dtype) << what;
  EXPECT_EQ(here.spec.shape, there.spec.shape) << what;
  EXPECT_EQ(here.bytes, there.bytes) << what;
}

Json row_of(const std::string& name) {
  return Json::parse(testing::file_text(deepspeed_folders() / name / "run.json"));
}

TEST(DeepSpeedCheckpoint, WeightsEqualWhatZeroToFp32MakesToTheBit) {
  int compared = 0;
  for (const auto& name : deepspeed_cases()) {
    const Path folder = deepspeed_folders() / name;
    const auto saved = DeepSpeedCheckpoint::open(folder / "state");
    const auto here = tensors_of(saved.weights());
    EXPECT_EQ(saved.stage() == 0, row_of(name)["stage"] == 0) << name;
    if (!std::filesystem::exists(folder / "merged.safetensors")) continue;
    const auto there = tensors_in(folder / "merged.safetensors");
    for (const auto& [tensor, held] : there) {
      ASSERT_TRUE(here.contains(tensor)) << name << " " << tensor;
      expect_equal(here.at(tensor), held, name + " " + tensor);
      ++compared;
    }
    for (const auto& [tensor, held] : here) {
      // The script drops frozen parameters under ZeRO 1.
      const bool frozen = tensor.starts_with("frozen.") && row_of(name)["stage"] == 1;
      EXPECT_TRUE(there.contains(tensor) || frozen) << name << " " << tensor;
    }
  }
  EXPECT_GT(compared, 60);
}

TEST(DeepSpeedCheckpoint, MomentsAndStepsEqualWhatDeepSpeedSaysToTheBit) {
  int compared = 0;
  for (const auto& name : deepspeed_cases()) {
    const Path folder = deepspeed_folders() / name;
    if (!std::filesystem::exists(folder / "state.safetensors")) continue;
    const auto saved = DeepSpeedCheckpoint::open(folder / "state");
    const auto optimizer = saved.optimizer();
    const auto here = tensors_of(optimizer.tensors);
    for (const auto& [key, held] : tensors_in(folder / "state.safetensors")) {
      const auto dot = key.find('.');
      const std::string entry = key.substr(0, dot), parameter = key.substr(dot + 1);
      if (entry == "fp32") continue;
      ASSERT_TRUE(here.contains("state." + parameter + "." + entry)) << name << " " << key;
      EXPECT_EQ(here.at("state." + parameter + "." + entry).bytes, held.bytes) << name << key;
      ++compared;
    }
    std::set<std::string> grouped;
    for (const auto& group : optimizer.groups)
      grouped.insert(group.parameters.begin(), group.parameters.end());
    EXPECT_EQ(grouped.size(), 6) << name;
    EXPECT_EQ(optimizer.groups.size(), row_of(name).contains("groups") ? 2 : 1) << name;
  }
  EXPECT_GT(compared, 30);
}

TEST(DeepSpeedCheckpoint, MergingWritesTheSameFileFromTheFolderAndFromItsTag) {
  for (const auto& name : deepspeed_cases()) {
    const TemporaryFolder home;
    const Path state = deepspeed_folders() / name / "state";
    const auto saved = DeepSpeedCheckpoint::open(state);
    const auto merged = merge_weights(state, home.path() / "a");
    EXPECT_EQ(merged.written.tensors, saved.weights().tensors().size());
    (void)merge_weights(saved.files().folder, home.path() / "b");
    (void)merge_weights(state, home.path() / "c",
                        {.tag = saved.files().folder.filename().string()});
    const auto text = testing::file_text(home.path() / "a" / "model.safetensors");
    EXPECT_EQ(text, testing::file_text(home.path() / "b" / "model.safetensors")) << name;
    EXPECT_EQ(text, testing::file_text(home.path() / "c" / "model.safetensors")) << name;
    const auto written = tensors_in(home.path() / "a" / "model.safetensors");
    for (const auto& [tensor, held] : tensors_of(saved.weights()))
      expect_equal(written.at(tensor), held, name + " " + tensor);
  }
}

TEST(DeepSpeedCheckpoint, FrozenParametersCanBeLeftOut) {
  for (const char* name : {"zero2_fp32", "zero3_bf16", "zero1_bf16"}) {
    const Path state = deepspeed_folders() / name / "state";
    const auto with = DeepSpeedCheckpoint::open(state);
    const auto without = DeepSpeedCheckpoint::open(state, {.exclude_frozen_parameters = true});
    EXPECT_NE(with.weights().find("frozen.weight"), nullptr) << name;
    EXPECT_EQ(without.weights().find("frozen.weight"), nullptr) << name;
    EXPECT_EQ(with.weights().tensors().size(), without.weights().tensors().size() + 2) << name;
  }
}

}  // namespace
}  // namespace accelerate
