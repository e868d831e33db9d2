// Checkpoints of DeepSpeed that are damaged, hostile or incomplete: refused by file and key.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>
#include <regex>

#include "accelerate/formats/shards/deepspeed_checkpoint.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "tests/formats/deepspeed_support.h"
#include "tests/formats/torch_archive_support.h"
#include "tests/support/deepspeed_folders.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/pairwise.h"

namespace accelerate {
namespace {

using testing::deepspeed_folders;
using testing::message_of;
using testing::TemporaryFolder;
using testing::tensors_of;
using Path = std::filesystem::path;

// A copy of a case's state in which something was done.
struct Copy {
  explicit Copy(const std::string& name) {
    std::filesystem::copy(deepspeed_folders() / name / "state", home.path() / "state",
                          std::filesystem::copy_options::recursive);
    tag_ = find_deepspeed_files(real_file_system(), state()).folder;
  }
  [[nodiscard]] Path state() const { return home.path() / "state"; }
  [[nodiscard]] const Path& tag() const { return tag_; }
  // Replaces the first text `from` after `after` in a file by another of the same length.
  void replace(const std::string& file, const std::string& from, const std::string& to,
               const std::string& after = "") const {
    ASSERT_EQ(from.size(), to.size());
    std::string text = testing::file_text(tag() / file);
    const auto at = text.find(from, text.find(after));
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    write(tag() / file, text);
  }
  static void write(const Path& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
  }

  TemporaryFolder home;
  Path tag_;
};

void read_all(const Path& folder) {
  const auto saved = DeepSpeedCheckpoint::open(folder);
  (void)tensors_of(saved.weights());
  if (saved.stage() > 0) (void)tensors_of(saved.optimizer().tensors);
}

const std::string kModel = "mp_rank_00_model_states.pt";
const std::string kModel3 = "zero_pp_rank_0_mp_rank_00_model_states.pt";
const std::string kFirst = "zero_pp_rank_0_mp_rank_00_optim_states.pt";
const std::string kSecond = "zero_pp_rank_1_mp_rank_00_optim_states.pt";
const std::string kThird = "zero_pp_rank_2_mp_rank_00_optim_states.pt";

struct DeepSpeedDamage {
  const char* what;
  std::string of;
  std::function<void(const Copy&)> done;
  std::string pattern;
};

std::vector<DeepSpeedDamage> wrong_folders() {
  namespace fs = std::filesystem;
  const std::string two = "zero2_fp32", three = "zero3_three_ranks";
  return {
      {"no first rank", two, [](const Copy& c) { fs::remove(c.tag() / kFirst); },
       "has zero_pp_rank_1.*no file of rank 0"},
      {"no last rank", two, [](const Copy& c) { fs::remove(c.tag() / kSecond); },
       kFirst + ".*on 2 ranks.*files of 1 rank "},
      {"no optimizer", two,
       [](const Copy& c) { fs::remove(c.tag() / kFirst), fs::remove(c.tag() / kSecond); },
       "no files of the optimizer"},
      {"no model", two, [](const Copy& c) { fs::remove(c.tag() / kModel); }, "no checkpoint"},
      {"a rank more", two, [](const Copy& c) { fs::copy(c.tag() / kSecond, c.tag() / kThird); },
       "on 2 ranks.*files of 3 ranks"},
      {"a rank of three", two,
       [](const Copy& c) {
         const auto other = find_deepspeed_files(
             real_file_system(), deepspeed_folders() / "zero3_three_ranks" / "state");
         fs::copy(other.optimizers[1], c.tag() / kSecond, fs::copy_options::overwrite_existing);
       },
       kSecond + ".*on 3 ranks"},
      {"a model's rank less", three,
       [](const Copy& c) { fs::remove(c.tag() / "zero_pp_rank_2_mp_rank_00_model_states.pt"); },
       "model of 2 ranks.*optimizer of 3"},
      {"two precisions", two,
       [](const Copy& c) { fs::copy(c.tag() / kFirst, c.tag() / ("bf16_" + kFirst)); },
       "holds both.*different trainings"},
      {"two tags", two,
       [](const Copy& c) {
         fs::copy(c.tag(), c.state() / "other", fs::copy_options::recursive);
         fs::remove(c.state() / "latest");
       },
       "several checkpoints.*its tags are other, pytorch_model"},
      {"a tag that is not there", two,
       [](const Copy& c) { Copy::write(c.state() / "latest", "global_step9"); },
       "latest names the tag 'global_step9'.*its tags are pytorch_model"},
      {"a tag elsewhere", two, [](const Copy& c) { Copy::write(c.state() / "latest", "../../x"); },
       "latest does not name a folder beside it"},
      {"tensor parallelism", two,
       [](const Copy& c) { fs::copy(c.tag() / kModel, c.tag() / "mp_rank_01_model_states.pt"); },
       "mp_rank_01_model_states.pt is of tensor parallelism.*ds_to_universal"},
      {"pipeline parallelism", two,
       [](const Copy& c) { Copy::write(c.tag() / "layer_00-model_states.pt", ""); },
       "layer_00-model_states.pt is of pipeline parallelism.*ds_to_universal"},
      {"experts", two,
       [](const Copy& c) {
         Copy::write(c.tag() / "layer_0_expert_1_mp_rank_00_model_states.pt", "");
       },
       "expert parallelism"},
      {"a model of ZeRO 3", two,
       [](const Copy& c) { fs::rename(c.tag() / kModel, c.tag() / kModel3); },
       "is of ZeRO 2, but zero_pp_rank_0.*is not"},
      {"universal without fp32", "zero3_universal",
       [](const Copy& c) { fs::remove(c.tag() / "zero" / "first.bias" / "fp32.pt"); },
       "first.bias has no fp32.pt"},
      {"universal without a parameter", "zero3_universal",
       [](const Copy& c) { fs::remove_all(c.tag() / "zero" / "first.bias"); },
       "first.bias is missing"},
      {"universal without options", "zero3_universal",
       [](const Copy& c) { fs::remove(c.tag() / "zero" / "optimizer_state.pt"); },
       "optimizer_state.pt is missing"},
  };
}

std::vector<DeepSpeedDamage> wrong_files() {
  const std::string two = "zero2_fp32", three = "zero3_three_ranks";
  const auto renamed = [](const std::string& file, const std::string& key) {
    return
        [file, key](const Copy& c) { c.replace(file, key, key.substr(0, key.size() - 1) + "X"); };
  };
  const auto key = [](const std::string& name) {
    return "X" + testing::number(name.size(), 4) + name;
  };
  const auto dict = [&](const std::string& entries) {
    return testing::archive_of(testing::pickle("}(" + entries + "u"));
  };
  const std::string evil = "cposix\nsystem\n(" + testing::text("touch /tmp/x") + "tR";
  return {
      {"empty", two, [](const Copy& c) { Copy::write(c.tag() / kFirst, ""); },
       kFirst + ".*it is empty"},
      {"a program", two,
       [evil](const Copy& c) {
         Copy::write(c.tag() / kModel, testing::archive_of(testing::pickle(evil)));
       },
       kModel + ".*asks for 'posix.system'"},
      {"another class", two, renamed(kSecond, "LossScaler"), kSecond + ".*LossScaleX"},
      {"a class of a tensor", three, renamed(kFirst, "torch\nTensor"), kFirst + ".*torch.TensoX"},
      {"a list", two,
       [](const Copy& c) {
         Copy::write(c.tag() / kModel, testing::archive_of(testing::pickle("]")));
       },
       "not a dict"},
      {"nothing", two, [=](const Copy& c) { Copy::write(c.tag() / kModel, dict("")); },
       "has no 'param_shapes'"},
      {"shapes that are text", two,
       [=](const Copy& c) {
         Copy::write(c.tag() / kModel,
                     dict(key("param_shapes") + "](}" + key("w") + key("shape") + "se"));
       },
       "'param_shapes\\[0\\].w' is the text 'shape', not a list"},
      {"shapes that overflow", two,
       [=](const Copy& c) {
         const std::string huge = "\x8a\x08" + std::string(7, '\xff') + "\x7f";
         Copy::write(c.tag() / kModel,
                     dict(key("param_shapes") + "](}" + key("w") + huge + huge + "\x86se"));
       },
       "whose size overflows"},
      {"a shape below zero", two,
       [=](const Copy& c) {
         Copy::write(c.tag() / kModel,
                     dict(key("param_shapes") + "](}" + key("w") + "J\xff\xff\xff\xff\x85se"));
       },
       "is not a shape"},
      {"the same name twice", two,
       [=](const Copy& c) {
         const std::string one = key("w") + "K\1\x85s";
         Copy::write(c.tag() / kModel, dict(key("param_shapes") + "](}" + one + one + "e"));
       },
       "has the key 'w' twice"},
      {"a group less", two,
       [=](const Copy& c) {
         Copy::write(c.tag() / kModel, dict(key("param_shapes") + "]" + key("module") + "}" +
                                            key("buffer_names") + "]"));
       },
       "has 1 group, param_shapes has 0"},
      {"shapes that do not add up", two,
       [=](const Copy& c) {
         Copy::write(c.tag() / kModel, dict(key("param_shapes") + "](}" + key("w") + "M\1\1\x85se" +
                                            key("module") + "}" + key("buffer_names") + "]"));
       },
       "alignment_paddings|take 257"},
      {"no shapes", two, renamed(kModel, "param_shapes"), "has no 'param_shapes'"},
      {"no buffers", two, renamed(kModel, "buffer_names"), "has no 'buffer_names'"},
      {"no weights", two, renamed(kSecond, "single_partition_of_fp32_groups"),
       kSecond + ".*has no 'single_partition"},
      {"no count of ranks", two, renamed(kFirst, "partition_count"), "has no 'partition_count'"},
      {"no state", two, renamed(kFirst, "base_optimizer_state"), "has no 'base_optimizer_state'"},
      {"no weights of ZeRO 3", three, renamed(kSecond, "fp32_flat_groups"),
       kSecond + ".*has no 'fp32_flat_groups'"},
      {"no fragments", three, renamed(kModel3, "frozen_param_fragments"),
       "has no 'frozen_param_fragments'"},
      {"no options", three, renamed(kFirst, "param_groups"), "has no 'param_groups'"},
      {"another shape", two,
       [](const Copy& c) { c.replace(kModel, "K\x07K\x05\x86", "K\x07K\x06\x86", "param_shapes"); },
       "has .* elements on all 2 ranks; its 6 parameters in param_shapes take"},
      {"another shape of ZeRO 3", three,
       [](const Copy& c) { c.replace(kModel3, "K\x07K\x05\x86", "K\x07K\x02\x86"); },
       "has .* elements; its 6 parameters"},
  };
}

TEST(DeepSpeedHostile, WhatDoesNotFitIsRefusedByFileAndKey) {
  for (const auto& table : {wrong_folders(), wrong_files()}) {
    for (const DeepSpeedDamage& damage : table) {
      const Copy copy(damage.of);
      damage.done(copy);
      if (HasFatalFailure()) FAIL() << damage.what;
      const auto message = message_of<CheckpointError>([&] { read_all(copy.state()); });
      EXPECT_TRUE(std::regex_search(message, std::regex(damage.pattern)))
          << damage.what << ": " << message;
      EXPECT_LT(message.size(), 700) << damage.what;
    }
  }
}

// Whatever bytes are changed or cut off, the folder is refused or read, without a crash.
TEST(DeepSpeedHostile, FlippedBitsAndCutFilesNeverCrash) {
  int refused = 0;
  for (const char* name : {"zero1_bf16", "zero2_fp32", "zero3_three_ranks", "zero3_universal"}) {
    const Copy copy(name);
    std::vector<Path> paths;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(copy.tag()))
      if (entry.path().extension() == ".pt") paths.push_back(entry.path());
    std::ranges::sort(paths);
    std::mt19937 random(7);
    for (int i = 0; i < (testing::extended() ? 5000 : 150); ++i) {
      const Path& path = paths[random() % paths.size()];
      const std::string whole = testing::file_text(path);
      std::string text = whole;
      if (i % 5 == 0) {
        text.resize(random() % text.size());
      } else {
        const auto at = random() % std::min<std::size_t>(text.size(), 3000);
        text[at] = static_cast<char>(text[at] ^ 1 << random() % 8);
      }
      Copy::write(path, text);
      try {
        read_all(copy.state());
      } catch (const CheckpointError&) {
        ++refused;
      }
      Copy::write(path, whole);
    }
  }
  EXPECT_GT(refused, 200);
}

TEST(DeepSpeedHostile, OptionsThatMeanNothingAreRefused) {
  const TemporaryFolder home;
  const Path state = deepspeed_folders() / "zero2_fp32" / "state";
  EXPECT_TRUE(std::regex_search(message_of<CheckpointError>([&] {
                                  (void)merge_weights(state, home.path() / "out",
                                                      {.model = "model"});
                                }),
                                std::regex("has one model a tag")));
  EXPECT_TRUE(std::regex_search(message_of<CheckpointError>([&] {
                                  (void)merge_weights(state, home.path() / "out",
                                                      {.remove_source = true});
                                }),
                                std::regex("holds more than what is merged")));
  EXPECT_TRUE(
      std::regex_search(message_of<CheckpointError>([&] {
                          (void)merge_weights(state, home.path() / "out", {.tag = "global_step7"});
                        }),
                        std::regex("no checkpoint of DeepSpeed with the tag 'global_step7'")));
}

}  // namespace
}  // namespace accelerate
