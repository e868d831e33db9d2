// Configuration files as public repositories have them, of many versions of the original and for
// other hardware, through everything that reads one.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/config/cluster_config.h"
#include "accelerate/launch/config/deepspeed.h"
#include "accelerate/launch/config/fsdp_plugin.h"
#include "accelerate/launch/config/resolved_deepspeed.h"
#include "accelerate/launch/protocol.h"
#include "cli/commands/commands.h"
#include "tests/support/files.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ScopedEnv;

const std::filesystem::path kReal = ACCELERATE_SOURCE_DIR "/tests/launch/config/real";

// What is told: "" for nothing, "!words" for a refusal with these words, else the words of each
// line that is told, separated by '|'.
struct RealFile {
  const char* file;
  const char* launch = "";
  const char* native = "";  // What a native program makes of what it is told.
  const char* update = "";  // Lines of `config update`, before the last one.
};

constexpr const char* kOldIntel = "'ipex_config' (line 5) was for Intel's extension of PyTorch";
constexpr const char* kInit = "zero3_init_flag is true";
constexpr const char* kInitAndSave = "zero3_init_flag is true|zero3_save_16bit_model is true";
constexpr const char* kSageMaker =
    "'base_job_name' (line 1) was for Amazon SageMaker|'ec2_instance_type'|'profile'|'region'";

const RealFile kFiles[] = {
    {"recipe_single_gpu.yaml"},
    {"recipe_multi_gpu.yaml"},
    {"recipe_zero1.yaml"},
    {"recipe_zero2.yaml"},
    {"recipe_zero3.yaml", "", kInitAndSave},
    {"recipe_fsdp1.yaml"},
    {"recipe_fsdp2.yaml"},
    {"recipe_context_parallel.yaml"},
    {"handbook_fsdp.yaml"},
    {"handbook_qlora_fsdp.yaml", "", "use_orig_params is false"},
    {"adapter_zero3_offload.yaml", "", kInit},
    {"adapter_zero2_clipping.yaml"},
    {"research_zero2_accumulation.yaml"},
    {"research_zero_auto.yaml"},
    {"deepspeed_own_file.yaml", "", "!is 'configs/zero2.json', which is neither a file"},
    {"deepspeed_nvme.yaml", "", kInit},
    {"deepspeed_pdsh_left_over.yaml",
     "'deepspeed_hostfile' in FILE, 'deepspeed_multinode_launcher' in FILE have no effect on one"},
    {"deepspeed_experts.yaml"},
    {"cluster_two_nodes.yaml"},
    {"cluster_address_left_over.yaml",
     "'main_process_ip' in FILE is '192.0.2.17', which is not an address of this machine, and has "
     "no effect on one machine: ranks meet on 127.0.0.1."},
    {"cluster_name_left_over.yaml", "'main_process_ip' in FILE is '$MASTER_ADDR'"},
    {"cluster_c10d.yaml"},
    {"cluster_etcd_left_over.yaml", "'rdzv_backend' in FILE has no effect on one machine"},
    {"cluster_number_on_command_line.yaml", "!leaves num_processes to the command line"},
    {"template_fp8_te.yaml"},
    {"template_fp8_levels.yaml"},
    {"template_megatron.yaml"},
    {"template_multi_cpu.yaml",
     "'mpirun_hostfile' in FILE has no effect on one machine.|'mpirun_ccl' in FILE has no effect"},
    {"template_compiled.yaml"},
    {"template_compiled_quietly.yaml"},
    {"template_one_cpu.json"},
    {"old_fp16_key.yaml"},
    {"old_empty_sections.yaml"},
    {"old_intel_extension.yaml", kOldIntel, "", kOldIntel},
    {"old_intel_extension_off.yaml", "'ipex_config' (line 7)", "", "'ipex_config' (line 7)"},
    {"old_apple.yaml", "'distributed_type: MPS' (line 3) was for Apple's GPUs in FILE, and has no",
     "", "'distributed_type: MPS' (line 3) was for Apple's GPUs."},
    {"old_apple_switch.yaml", "'use_mps_device' (line 7) was for Apple's GPUs", "",
     "'use_mps_device' (line 7)"},
    {"old_fsdp_numbers.yaml"},
    {"old_tensor_parallel.yaml",
     "'dynamo_backend: AOT_NVFUSER' (line 5) was for a compiler|'tp_config' (line 12) was for", "",
     "'dynamo_backend: AOT_NVFUSER' (line 5) was for a compiler|'tp_config' (line 12) was for"},
    {"old_fsdp_policy.yaml", "'fsdp_limit_all_gathers' (line 8)", "",
     "'fsdp_limit_all_gathers' (line 8)"},
    {"tpu_pod.yaml", "!distributed_type in FILE is XLA; this version launches on CPUs and NVIDIA"},
    {"tpu_left_over.yaml",
     "'downcast_bf16' in FILE, 'tpu_use_sudo' in FILE have no effect without TPUs.|"
     "'tpu_name' in FILE, 'tpu_zone' in FILE have no effect here"},
    {"xpu.yaml", "!distributed_type in FILE is MULTI_XPU", "", kOldIntel},
    {"sagemaker.yaml", "!only Python programs can be launched", "",
     "!only Python programs can be launched"},
    {"sagemaker_left_over.yaml", kSageMaker, "", kSageMaker},
};

// Compares what was told with the words that were expected; FILE stands for the file.
void expect_told(const std::string& expected, const std::vector<std::string>& told,
                 const std::string& file) {
  std::vector<std::string> words;
  if (!expected.empty()) words = split(expected, '|');
  EXPECT_EQ(told.size(), words.size()) << file << "\n" << join(told, "\n");
  for (std::size_t i = 0; i < std::min(told.size(), words.size()); ++i) {
    std::string word = words[i];
    for (auto at = word.find("FILE"); at != std::string::npos; at = word.find("FILE"))
      word.replace(at, 4, file);
    EXPECT_NE(told[i].find(word), std::string::npos) << "no '" << word << "' in: " << told[i];
  }
}

// Runs `read`, which returns what it told, and compares. Returns whether it was not refused.
bool expect_outcome(const std::string& expected, const std::string& file,
                    const std::function<std::vector<std::string>()>& read) {
  const bool is_refused = expected.starts_with('!');
  try {
    const auto told = read();
    EXPECT_FALSE(is_refused) << file << " was taken; expected: " << expected;
    if (!is_refused) expect_told(expected, told, file);
    return true;
  } catch (const ConfigError& error) {
    if (is_refused) {
      expect_told(expected.substr(1), {describe(error)}, file);
    } else {
      ADD_FAILURE() << file << " was refused: " << describe(error);
    }
    return false;
  }
}

// What a native program of two threads a rank is told, as its environment.
class AsTold {
 public:
  explicit AsTold(const Environment& shared) {
    for (const auto& [name, value] : shared)
      set_.push_back(std::make_unique<ScopedEnv>(name.c_str(), value.c_str()));
  }

 private:
  std::vector<std::unique_ptr<ScopedEnv>> set_;
};

std::vector<std::string> sharding_is_read(const Environment& shared) {
  const AsTold environment(shared);
  const testing::LogCapture log;
  const auto said = shared.find("ACCELERATE_MIXED_PRECISION");
  const auto precision =
      said == shared.end() ? MixedPrecision::no : parse_enum<MixedPrecision>(said->second).value();
  if (use_fsdp()) (void)resolve({}, precision);
  if (use_deepspeed()) (void)resolve_deepspeed(DeepSpeedPlugin{}, {.mixed_precision = precision});
  return log.lines();
}

class RealFiles : public ::testing::TestWithParam<RealFile> {
 protected:
  ScopedEnv threads_{"OMP_NUM_THREADS", nullptr};
};

TEST_P(RealFiles, AreLaunched) {
  const std::string file = kReal / GetParam().file;
  Environment shared;
  const bool is_taken = expect_outcome(GetParam().launch, file, [&] {
    const auto settings =
        merge_settings(read_request({{"config_file", file}}), {.gpus = 8, .cores = 8});
    const MeetingPoint met{.machines = settings.num_machines, .ranks_of_all = 16};
    const auto plan =
        make_plan(settings, ProgramKind::native, settings.num_machines > 1 ? &met : nullptr);
    shared = plan.shared;
    return plan.warnings;
  });
  if (is_taken) expect_outcome(GetParam().native, file, [&] { return sharding_is_read(shared); });
}

TEST_P(RealFiles, AreUpdatedAndThenTellNothing) {
  const testing::TemporaryFolder folder;
  const std::string name = GetParam().file;
  const std::filesystem::path file = folder.write(name, testing::file_text(kReal / name));
  const bool is_taken = expect_outcome(GetParam().update, file, [&] {
    std::ostringstream out;
    cli::run_config_update({.config_file = file}, out);
    auto lines = split(trim(out.str()), '\n');
    EXPECT_TRUE(lines.back().starts_with("Successfully updated")) << out.str();
    lines.pop_back();
    return lines;
  });
  if (!is_taken) return;
  std::vector<RetiredKey> retired;
  EXPECT_EQ(load_cluster_config(file, &retired), load_cluster_config(kReal / name));
  EXPECT_TRUE(retired.empty());
  std::ostringstream out;
  EXPECT_EQ(cli::run_env({.config_file = file, .without_libtorch = true}, out), 0);
  EXPECT_NE(out.str().find("- compute_environment: LOCAL_MACHINE"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Table, RealFiles, ::testing::ValuesIn(kFiles), [](const auto& info) {
  std::string name = info.param.file;
  name.erase(name.find('.'));
  return name;
});

TEST(RealFilesTable, HasEveryFile) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kReal))
    files += entry.is_regular_file() ? 1 : 0;
  EXPECT_EQ(files, std::size(kFiles));
}

}  // namespace
}  // namespace accelerate
