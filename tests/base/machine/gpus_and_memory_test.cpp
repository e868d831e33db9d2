#include "accelerate/base/machine/gpus.h"
#include "accelerate/base/machine/hardware.h"
#include "accelerate/base/machine/topology.h"

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ScopedEnv;

class Hardware : public ::testing::Test {
 protected:
  Hardware() {
    for (const char* bus : {"0000:3b:00.0", "0000:18:00.0"}) {
      const bool first = std::string(bus) == "0000:18:00.0";
      folder_.write("proc/driver/nvidia/gpus/" + std::string(bus) + "/information",
                    std::string("Model: \t\t NVIDIA ") + (first ? "H100" : "A10") +
                        "\nIRQ:   \t\t 1\nGPU UUID: \t GPU-" + (first ? "aaaa" : "bbbb") + "-1\n");
    }
    folder_.write("proc/meminfo", "MemTotal:       24684420 kB\nMemFree: 1 kB\n");
    for (int cpu = 0; cpu < 8; ++cpu) {
      const int core = cpu % 4;
      folder_.write("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list",
                    std::to_string(core) + "," + std::to_string(core + 4) + "\n");
    }
    folder_.write("sys/devices/system/cpu/cpuidle/x", "");
  }

  [[nodiscard]] HardwareRoots roots() const {
    return {folder_.path() / "proc", folder_.path() / "dev", folder_.path() / "sys"};
  }

  std::vector<std::string> names(const char* visible) {
    const ScopedEnv scope("CUDA_VISIBLE_DEVICES", visible);
    std::vector<std::string> found;
    for (const auto& gpu : visible_gpus(roots())) found.push_back(gpu.name);
    return found;
  }

  testing::TemporaryFolder folder_;
};

using Names = std::vector<std::string>;

TEST_F(Hardware, ListsTheGpusOfTheDriverInTheOrderOfTheBus) {
  EXPECT_EQ(names(nullptr), (Names{"NVIDIA H100", "NVIDIA A10"}));
}

TEST_F(Hardware, SeesWhatCudaVisibleDevicesShows) {
  EXPECT_EQ(names("1"), Names{"NVIDIA A10"});
  EXPECT_EQ(names("1,0"), (Names{"NVIDIA A10", "NVIDIA H100"}));
  EXPECT_EQ(names("GPU-bbbb"), Names{"NVIDIA A10"});
  EXPECT_EQ(names(""), Names{});
  EXPECT_EQ(names("-1"), Names{});
  EXPECT_EQ(names("0,7,1"), Names{"NVIDIA H100"});
}

TEST_F(Hardware, CountsDeviceFilesWhereTheDriversFolderIsHidden) {
  std::filesystem::remove_all(folder_.path() / "proc/driver");
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"}) {
    folder_.write(std::string("dev/") + name, "");
  }
  EXPECT_EQ(names(nullptr), (Names{"NVIDIA GPU", "NVIDIA GPU"}));
}

TEST_F(Hardware, CountsCoresAndNotHyperThreads) {
  EXPECT_EQ(physical_cores(roots()), 4);
}

TEST_F(Hardware, CountsNoMoreCoresThanTheControlGroupGrants) {
  folder_.write("sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(physical_cores(roots()), 2);
  folder_.write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(physical_cores(roots()), 4);
}

TEST_F(Hardware, ReadsTheInstalledMemory) {
  EXPECT_EQ(memory_bytes(roots()), 24684420ULL * 1024);
}

TEST(HardwareHere, IsPlausible) {
  EXPECT_GE(physical_cores(), 1);
  EXPECT_GT(memory_bytes(), 1U << 28);
  EXPECT_GE(gpu_count(), 0);
}

}  // namespace
}  // namespace accelerate
