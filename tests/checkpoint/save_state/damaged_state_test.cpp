// A checkpoint whose bytes are not those that were saved: refused by a CheckpointError, whatever
// they are, and by its file's name where the manifest knows better.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "accelerate/accelerate.h"
#include "accelerate/base/checksum.h"
#include "accelerate/base/error.h"
#include "accelerate/formats/manifest.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::TemporaryFolder;
using Path = std::filesystem::path;

const std::string kManifest = "manifest.json";

std::string content(const Path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A new file: some file systems flush one that is cut and written again, which takes milliseconds.
void overwrite(const Path& path, const std::string& bytes) {
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary) << bytes;
}

struct CountAndText {
  std::int64_t value = 0;
  [[nodiscard]] StateDict state_dict() const { return {{"value", value}, {"text", "a\nb"}}; }
  void load_state_dict(const StateDict& state) { value = state.at("value").to<std::int64_t>(); }
};

// A training with a state in every kind of file, and its checkpoint.
class DamagedState : public ::testing::Test {
 protected:
  DamagedState() {
    auto batches = make_data_loader(torch::arange(8.0), {.batch_size = 2});
    auto prepared = accelerator_.prepare(net_, adam_, schedule_, batches);
    prepared_ = std::make_shared<decltype(prepared)>(std::move(prepared));
    accelerator_.register_for_checkpointing(count_);
    step();
    step();
    accelerator_.save_state(folder_);
    for (const auto& name : real_file_system().list(folder_))
      saved_.emplace(name, content(folder_ / name));
    mark();
  }

  void step() {
    const auto window = accelerator_.accumulate();
    accelerator_.backward(net_(torch::ones({2, 40})).sum());
    adam_.step();
  }

  void mark() {
    const torch::NoGradGuard no_grad;
    net_->weight.fill_(7);
  }
  [[nodiscard]] bool unchanged() const { return (net_->weight == 7).all().item<bool>(); }

  // What load_state says; empty when it loads.
  std::string load() {
    try {
      accelerator_.load_state(folder_);
    } catch (const CheckpointError& error) {
      return describe(error);
    }
    return {};
  }

  // All there is to save, as it is now.
  std::map<std::string, std::string> everything() {
    const Path now = home_.path() / "now";
    accelerator_.save_state(now);
    std::map<std::string, std::string> all;
    for (const auto& name : real_file_system().list(now)) all.emplace(name, content(now / name));
    return all;
  }

  void restore(const std::string& name) { overwrite(folder_ / name, saved_.at(name)); }

  // Puts `bytes` in the place of a file, and what a saver would say of them into the manifest.
  void forge(const std::string& name, const std::string& bytes) {
    overwrite(folder_ / name, bytes);
    std::string manifest = saved_.at(kManifest);
    const auto before = checksum_text(checksum(saved_.at(name)));
    manifest.replace(manifest.find(before), before.size(), checksum_text(checksum(bytes)));
    overwrite(folder_ / kManifest, manifest);
  }

  // As forge, but of any size.
  void forge_resized(const std::string& name, const std::string& bytes) {
    auto& files = real_file_system();
    restore(kManifest);
    Manifest manifest = read_manifest(files, folder_);
    overwrite(folder_ / name, bytes);
    for (auto& file : manifest.files)
      if (file.name == name) file = manifest_file(files, folder_, name);
    std::filesystem::remove(folder_ / kManifest);
    write_manifest(files, folder_, manifest);
  }

  TemporaryFolder home_;
  Path folder_ = home_.path() / "state";
  Accelerator accelerator_{{.gradient_accumulation_steps = 2,
                            .mixed_precision = MixedPrecision::fp16,
                            .communicator = single_communicator()}};
  torch::nn::Linear net_{40, 40};
  torch::optim::AdamW adam_{net_->parameters(), torch::optim::AdamWOptions(0.1)};
  std::shared_ptr<StepLR> schedule_ = std::make_shared<StepLR>(adam_, 2);
  std::shared_ptr<void> prepared_;
  CountAndText count_;
  std::map<std::string, std::string> saved_;
};

std::set<std::size_t> cuts(std::size_t size) {
  std::set<std::size_t> places = {0, 1, size - 1, size + 1};
  for (std::size_t at = 4096; at < size + 2; at += 4096)
    for (const std::size_t place : {at - 1, at, at + 1}) places.insert(place);
  places.erase(size);
  return places;
}

TEST_F(DamagedState, IsNamedWhereverAFileIsCut) {
  int seen = 0;
  for (const auto& [name, bytes] : saved_) {
    for (const std::size_t size : cuts(bytes.size())) {
      if (name == kManifest && size == bytes.size() - 1) continue;  // Without its last newline.
      std::string cut = bytes;
      cut.resize(size, 'x');
      overwrite(folder_ / name, cut);
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, name, load()) << "cut to " << size;
      ++seen;
    }
    restore(name);
  }
  EXPECT_GT(seen, 50);
  EXPECT_TRUE(unchanged());
  EXPECT_EQ(load(), "");
}

// All bytes of a text, the header of tensors.
std::size_t header_size(const std::string& name, const std::string& bytes) {
  if (!name.ends_with(".safetensors")) return bytes.size();
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  return sizeof length + length;
}

TEST_F(DamagedState, IsNamedWhicheverByteOfAHeaderIsFlipped) {
  for (const auto& [name, bytes] : saved_) {
    for (std::size_t i = 0; i < header_size(name, bytes); ++i) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ 1);
      overwrite(folder_ / name, flipped);
      const auto said = load();
      // A name or a size in the manifest that is another puts the blame on that file.
      if (name != kManifest) {
        EXPECT_PRED_FORMAT2(::testing::IsSubstring, name, said);
      }
      EXPECT_NE(said, "") << name << ", byte " << i;
    }
    restore(name);
  }
  EXPECT_TRUE(unchanged());
  EXPECT_EQ(load(), "");
}

// With checksums that agree it is the readers that must stand: an error of ours or a state, never a
// crash, and the model keeps its weights when the file of its weights is refused.
TEST_F(DamagedState, IsReadWithoutTrustWhereTheManifestAgrees) {
  int refused = 0, loaded = 0;
  for (const auto& [name, bytes] : saved_) {
    if (name == kManifest) continue;
    for (std::size_t i = 0; i < header_size(name, bytes); ++i) {
      for (const int bit : {0x01, 0x80}) {
        std::string flipped = bytes;
        flipped[i] = static_cast<char>(flipped[i] ^ bit);
        forge(name, flipped);
        mark();
        if (load().empty()) {
          ++loaded;
          continue;
        }
        ++refused;
        if (name == "model.safetensors") {
          EXPECT_TRUE(unchanged()) << "byte " << i;
        }
      }
    }
    restore(name);
  }
  EXPECT_GT(refused, 2 * loaded) << "most of a header matters";
  restore(kManifest);
  EXPECT_EQ(load(), "");
}

struct Forged {
  const char* file;
  const char* from;
  const char* to;
  const char* says;
};

// Numbers that agree with the checksums and that no training has had.
TEST_F(DamagedState, WithNumbersOutOfRangeIsRefusedByNameAndNothingChanges) {
  step();
  accelerator_.save_state(folder_);
  for (const auto& name : real_file_system().list(folder_)) saved_[name] = content(folder_ / name);
  for (int i = 0; i < 2; ++i) step();
  schedule_->step();
  count_.value = 9;
  (void)torch::rand({1});
  mark();
  const auto before = everything();
  const Forged cases[] = {
      {"accelerator.json", R"("step": 3)", R"("step": -5)", "'step' of the accelerator is -5"},
      {"accelerator.json", R"("step": 3)", R"("step": 9223372036854775807)",
       "'step' of the accelerator is 9223372036854775807; allowed is 0 to 2^63 - 2"},
      {"accelerator.json", R"("iteration": 0)", R"("iteration": -1)",
       "'iteration' of the accelerator is -1"},
      {"accelerator.json", R"("iteration": 0)", R"("iteration": 9223372036854775807)",
       "'iteration' of the accelerator is 9223372036854775807"},
      {"dataloader.json", R"("samples": 0)", R"("samples": -12)", "'samples' is -12; allowed is 0"},
      {"dataloader.json", R"("batches": 0)", R"("batches": -3)", "'batches' is -3; allowed is 0"},
      {"dataloader.json", R"("epoch": 0)", R"("epoch": 9223372036854775807)",
       "'epoch' is 9223372036854775807"},
      {"dataloader.json", R"("num_processes": 1)", R"("num_processes": 0)",
       "'num_processes' is 0; allowed is 1"},
      {"scheduler.json", R"("last_epoch": 0)", R"("last_epoch": -99)",
       "'last_epoch' is -99; allowed is -1 to"},
      {"optimizer.json", R"("step": 3)", R"("step": -1)", "; allowed is 0 or more"},
      {"optimizer.json", R"("amsgrad": false)", R"("amsgrad": true)", "'max_exp_avg_sq' of"},
      {"optimizer.json", R"("class": "AdamW")", R"("class": "SGD")", "the state of SGD"},
      {"optimizer.json", R"("bias": {)", R"("zzz": {)", "a state of parameter 'zzz'"},
      {"scaler.json", R"("growth_interval": 2000)", R"("growth_interval": 0)", "growth_interval"},
      {"gradients_0.json", R"("num_items": null)", R"("num_items": -1)",
       "'num_items' of the accelerator is -1"},
      {"custom_checkpoint.json", R"("value": 0)", R"("value": "a")", "the text 'a'"},
  };
  for (const auto& [file, from, to, says] : cases) {
    std::string bytes = saved_.at(file);
    const auto place = bytes.find(from);
    ASSERT_NE(place, std::string::npos) << from << " in " << bytes;
    forge_resized(file, bytes.replace(place, std::string(from).size(), to));
    const auto said = load();
    EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, said);
    const bool own = std::string(file) == "custom_checkpoint.json";
    EXPECT_PRED_FORMAT2(::testing::IsSubstring,
                        own ? "everything else is unchanged" : "Nothing was changed", said);
    EXPECT_TRUE(everything() == before) << to;
    restore(file);
  }
}

// Bits would differ silently.
TEST_F(DamagedState, FromAnotherMatrixLibraryIsLoadedWithAWarning) {
  const std::string here = R"("matrix_library": "mkl")", there = R"("matrix_library": "onednn")";
  std::string bytes = saved_.at("accelerator.json");
  const auto place = bytes.find(here);
  ASSERT_NE(place, std::string::npos) << bytes;
  const auto said = [&] {
    const testing::LogCapture log;
    EXPECT_EQ(load(), "");
    const auto lines = log.lines();
    return std::ranges::any_of(lines, [](const std::string& line) {
      return line.find("saved where onednn multiplies fp32 matrices; here mkl does") !=
             std::string::npos;
    });
  };
  EXPECT_FALSE(said());
  forge_resized("accelerator.json", bytes.replace(place, here.size(), there));
  EXPECT_TRUE(said());
}

// LibTorch's own exception is nested in ours.
TEST_F(DamagedState, WithRandomNumbersThatLibTorchRefusesNamesTheirFile) {
  const std::string name = "random_states_0.safetensors";
  std::string bytes = saved_.at(name);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(header_size(name, bytes)), bytes.end(),
            '\xff');
  forge(name, bytes);
  const auto before = everything();
  const auto said = load();
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "'random_states_0'", said);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "Invalid mt19937 state", said);
  EXPECT_TRUE(everything() == before);
}

struct Replaced {
  const char* what;
  std::function<void(const Path& folder)> prepare;
  const char* says;
};

TEST_F(DamagedState, WithSomethingElseInTheFoldersPlaceIsASentence) {
  const Replaced cases[] = {
      {"a folder for a file",
       [](const Path& folder) {
         std::filesystem::remove(folder / "optimizer.json");
         std::filesystem::create_directory(folder / "optimizer.json");
       },
       "'optimizer.json' is not a file"},
      {"a FIFO for a file",
       [](const Path& folder) {
         std::filesystem::remove(folder / "model.safetensors");
         mkfifo((folder / "model.safetensors").c_str(), 0600);
       },
       "'model.safetensors' is not a file"},
      {"a FIFO for the manifest",
       [](const Path& folder) {
         std::filesystem::remove(folder / "manifest.json");
         mkfifo((folder / "manifest.json").c_str(), 0600);
       },
       "manifest.json"},
      {"a link that leads nowhere",
       [](const Path& folder) {
         std::filesystem::remove(folder / "scaler.json");
         std::filesystem::create_symlink(folder / "none", folder / "scaler.json");
       },
       "'scaler.json' is missing"},
      {"a link to itself",
       [](const Path& folder) {
         std::filesystem::remove(folder / "scaler.json");
         std::filesystem::create_symlink("scaler.json", folder / "scaler.json");
       },
       "scaler.json"},
      {"no file of a rank",
       [](const Path& folder) { std::filesystem::remove(folder / "random_states_0.json"); },
       "'random_states_0.json' is missing"},
      {"no manifest", [](const Path& folder) { std::filesystem::remove(folder / "manifest.json"); },
       "when all else is there [accelerate.error/checkpoint-unfinished]"},
      {"a file in the folder's place",
       [](const Path& folder) {
         std::filesystem::remove_all(folder);
         overwrite(folder, "notes");
       },
       "no such folder [accelerate.error/no-checkpoint]"},
  };
  for (const auto& [what, prepare, says] : cases) {
    const TemporaryFolder copies;
    const Path copy = copies.path() / "copy";
    std::filesystem::copy(folder_, copy);
    prepare(copy);
    try {
      accelerator_.load_state(copy);
      ADD_FAILURE() << what;
    } catch (const CheckpointError& error) {
      EXPECT_PRED_FORMAT2(::testing::IsSubstring, says, describe(error)) << what;
    }
    EXPECT_TRUE(unchanged()) << what;
  }
}

// What a manifest claims costs nothing before it is checked.
TEST_F(DamagedState, OfTwoThousandMillionRanksIsRefusedAtOnce) {
  std::string manifest = saved_.at(kManifest);
  const std::string before = "\"num_processes\": 1";
  manifest.replace(manifest.find(before), before.size(), "\"num_processes\": 2147483647");
  overwrite(folder_ / kManifest, manifest);
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "2147483647", load());
}

}  // namespace
}  // namespace accelerate
