// Saving tensors under failures: the file of before, or the whole new one.
#include <gtest/gtest.h>

#include "tests/formats/safetensors_support.h"
#include "tests/support/faulty_file_system.h"

namespace accelerate {
namespace {

using testing::as_bytes;
using testing::FaultPlan;
using testing::FaultyFileSystem;

const std::string kPath = "/models/model.safetensors";

// Saves a large and a small tensor filled with `letter`.
void save(FileSystem& files, char letter) {
  const std::string large(600 << 10, letter);
  const std::vector<StoredTensor> tensors = {
      {{"large", DType::u8, {600 << 10}}, as_bytes(large)},
      {{"small", DType::bf16, {1}}, as_bytes(large).first(2)}};
  write_safetensors(files, kPath, tensors);
}

std::string file_of(char letter) {
  FaultyFileSystem files;
  files.create_directories("/models");
  save(files, letter);
  return files.visible().at(kPath);
}

TEST(SafetensorsCrash, APowerCutAtAnyStepLeavesOldOrNew) {
  const std::string old = file_of('o');
  const std::string fresh = file_of('n');
  bool returned = false;
  for (std::size_t step = 0; !returned; ++step) {
    FaultyFileSystem files({.cut_power_at = step});
    files.put(kPath, old);
    try {
      save(files, 'n');
      returned = true;
    } catch (const testing::PowerCut&) {
    }
    for (auto& state : files.after_power_cut()) {
      EXPECT_TRUE(state[kPath] == fresh || (state[kPath] == old && !returned)) << "step " << step;
    }
  }
}

TEST(SafetensorsCrash, AFullDiskAtAnyStepIsACheckpointErrorThatNamesTheFile) {
  for (std::size_t step = 0; step < 7; ++step) {
    FaultyFileSystem files({.fail_at = step});
    files.put(kPath, "old");
    try {
      save(files, 'n');
      ADD_FAILURE() << "step " << step << " failed unheard";
    } catch (const CheckpointError& error) {
      const std::string message = describe(error);
      EXPECT_NE(message.find(kPath), std::string::npos) << message;
      EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
    }
    EXPECT_EQ(files.visible().size(), 1) << "step " << step << " left a file behind";
  }
}

}  // namespace
}  // namespace accelerate
