// `accelerate to-fsdp2`.
#include "cli/commands/commands.h"

#include <gtest/gtest.h>

#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/support.h"

namespace accelerate::cli {
namespace {

using testing::file_text;
using testing::message_of;
using testing::TemporaryFolder;

struct Strategy {
  const char* word;
  bool reshards;
  const char* note;
};

TEST(ToFsdp2, TurnsAStrategyIntoATruth) {
  for (const auto& [word, reshards, note] :
       {Strategy{"FULL_SHARD", true, ""}, Strategy{"SHARD_GRAD_OP", false, ""},
        Strategy{"NO_SHARD", false, "always shards"},
        Strategy{"HYBRID_SHARD", true, "dp_replicate_size"},
        Strategy{"HYBRID_SHARD_ZERO2", false,
                 "native program set ACCELERATE_FSDP_SHARD_GROUP_SIZE"}}) {
    for (const char* key : {"fsdp_sharding_strategy", "fsdp_reshard_after_forward"}) {
      ClusterConfig config;
      set_config_key(config, key, word, key);
      const auto notes = convert_to_fsdp2(config.fsdp_config);
      EXPECT_EQ(std::get<bool>(config.fsdp_config.reshard_after_forward.value()), reshards) << word;
      EXPECT_FALSE(config.fsdp_config.sharding_strategy.has_value());
      EXPECT_EQ(config.fsdp_config.fsdp_version, 2);
      EXPECT_NE(join(notes, "\n").find(note), std::string::npos) << word;
    }
  }
}

TEST(ToFsdp2, LeavesOutWhatVersionTwoHasNot) {
  FullyShardedDataParallelPlugin fsdp{.backward_prefetch = BackwardPrefetch::BACKWARD_PRE,
                                      .cpu_offload = true,
                                      .use_orig_params = false,
                                      .sync_module_states = true,
                                      .forward_prefetch = true};
  EXPECT_EQ(convert_to_fsdp2(fsdp).size(), 4U);
  EXPECT_EQ(fsdp, (FullyShardedDataParallelPlugin{.fsdp_version = 2, .cpu_offload = true}));
  EXPECT_NE(convert_to_fsdp2(fsdp).front().find("2 already"), std::string::npos);
}

TEST(ToFsdp2, ReplacesNoFileUnlessItIsTold) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "old.yaml";
  ClusterConfig config{.distributed_type = DistributedType::FSDP};
  config.fsdp_config.sharding_strategy = ShardingStrategy::FULL_SHARD;
  save_cluster_config(config, file);
  const std::string before = file_text(file);
  std::ostringstream out;
  auto message = message_of<ConfigError>([&] { run_to_fsdp2({file, {}, false}, out); });
  EXPECT_NE(message.find("--output_file"), std::string::npos) << message;
  message = message_of<ConfigError>([&] { run_to_fsdp2({file, file, false}, out); });
  EXPECT_NE(message.find("is there already"), std::string::npos) << message;
  EXPECT_EQ(file_text(file), before);
  run_to_fsdp2({file, folder.path() / "new.yaml", false}, out);
  EXPECT_EQ(file_text(file), before);
  run_to_fsdp2({file, {}, true}, out);
  EXPECT_EQ(file_text(file), file_text(folder.path() / "new.yaml"));
  EXPECT_NE(file_text(file).find("fsdp_reshard_after_forward: true"), std::string::npos);
}

}  // namespace
}  // namespace accelerate::cli
