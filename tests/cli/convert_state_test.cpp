// `accelerate convert-state`: the models of its output are those of the checkpoint.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "cli/commands/commands.h"
#include "tests/formats/merge_support.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::TemporaryFolder;

TEST(ConvertState, WritesTheModelsAndSaysWhatIsLeftOut) {
  const TemporaryFolder home;
  testing::write_shards(home.path() / "in");
  std::ofstream(home.path() / "in/custom_checkpoint.json") << "{}";
  testing::add_manifest(home.path() / "in");
  std::ostringstream out;
  EXPECT_EQ(run_convert_state({home.path() / "in", home.path() / "out"}, out), 0);
  EXPECT_EQ(out.str(), (home.path() / "out/pytorch_model_fsdp_0").string() +
                           "\nleft out: custom_checkpoint\n");
  for (const char* folder : {"in", "out"})
    merge_weights(home.path() / folder, home.path() / (std::string("merged_") + folder));
  EXPECT_EQ(testing::file_text(home.path() / "merged_in/model.safetensors"),
            testing::file_text(home.path() / "merged_out/model.safetensors"));
}

TEST(ConvertState, WantsBothFolders) {
  std::ostringstream out;
  EXPECT_THROW(run_convert_state({"", "out"}, out), ConfigError);
  EXPECT_THROW(run_convert_state({"in", ""}, out), ConfigError);
}

TEST(ConvertState, WantsAKnownFormatAndAnOptimizerForDeepSpeed) {
  std::ostringstream out;
  const auto unknown =
      testing::message_of<ConfigError>([&] { run_convert_state({"in", "out", "univrsal"}, out); });
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "--to is 'univrsal'; allowed is fsdp or universal",
                      unknown);
  const TemporaryFolder home;
  testing::write_shards(home.path() / "in");
  testing::add_manifest(home.path() / "in");
  const auto lacks = testing::message_of<CheckpointError>(
      [&] { run_convert_state({home.path() / "in", home.path() / "out", "universal"}, out); });
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "the checkpoint has no optimizer; an engine", lacks);
  EXPECT_FALSE(std::filesystem::exists(home.path() / "out"));
}

}  // namespace
}  // namespace accelerate::cli
