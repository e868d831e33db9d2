// Who gets which cores, over machines that exist as folders only, and what the kernel then says.
#include "accelerate/base/machine/cpu_affinity.h"
#include "accelerate/base/machine/gpus.h"

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "accelerate/base/text.h"
#include "tests/launch/support.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::ScopedEnv;
using Texts = std::vector<std::string>;

// A machine in a folder: nodes as lists of CPUs, and the hyper-threads of each core.
class Topology : public ::testing::Test {
 protected:
  void node(int number, const std::string& cpus) {
    folder_.write("sys/devices/system/node/node" + std::to_string(number) + "/cpulist",
                  cpus + "\n");
  }

  void core(const std::string& cpus) {
    for (const int cpu : parse_cpu_list(cpus)) {
      folder_.write(cpu_folder(cpu) + "/topology/thread_siblings_list", cpus + "\n");
    }
  }

  void single_cores(int first, int last) {
    for (int cpu = first; cpu <= last; ++cpu) core(std::to_string(cpu));
  }

  static std::string cpu_folder(int cpu) {
    return "sys/devices/system/cpu/cpu" + std::to_string(cpu);
  }

  [[nodiscard]] HardwareRoots roots() const {
    return {folder_.path() / "proc", folder_.path() / "dev", folder_.path() / "sys"};
  }

  // "0-1@0" for CPUs 0 and 1 with memory of node 0; "0-1" without a node.
  [[nodiscard]] Texts shares(int ranks, const std::string& allowed = "") const {
    const auto mask = allowed.empty() ? std::nullopt : std::optional(parse_cpu_list(allowed));
    Texts texts;
    for (const auto& share : divide_cores(cpu_cores(roots(), mask), ranks)) {
      texts.push_back(cpu_list_text(share.cpus) +
                      (share.node ? "@" + std::to_string(*share.node) : ""));
    }
    return texts;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Topology, DividesOneNodeIntoNeighbours) {
  node(0, "0-3");
  single_cores(0, 3);
  EXPECT_EQ(shares(1), (Texts{"0-3"}));
  EXPECT_EQ(shares(2), (Texts{"0-1", "2-3"}));
  EXPECT_EQ(shares(3), (Texts{"0-1", "2", "3"}));
  EXPECT_EQ(shares(4), (Texts{"0", "1", "2", "3"}));
}

TEST_F(Topology, GivesNothingToMoreRanksThanCores) {
  node(0, "0-3");
  core("0,2");
  core("1,3");
  EXPECT_EQ(shares(3), Texts{});
  EXPECT_EQ(shares(0), Texts{});
}

TEST_F(Topology, KeepsHyperThreadsTogether) {
  node(0, "0-7");
  for (const char* pair : {"0,4", "1,5", "2,6", "3,7"}) core(pair);
  EXPECT_EQ(shares(2), (Texts{"0-1,4-5", "2-3,6-7"}));
  EXPECT_EQ(shares(4), (Texts{"0,4", "1,5", "2,6", "3,7"}));
}

TEST_F(Topology, LetsNoRankStraddleTwoNodesWhenThereAreEnoughRanks) {
  node(0, "0-3");
  node(1, "4-7");
  single_cores(0, 7);
  EXPECT_EQ(shares(2), (Texts{"0-3@0", "4-7@1"}));
  EXPECT_EQ(shares(3), (Texts{"0-1@0", "2-3@0", "4-7@1"}));
  EXPECT_EQ(shares(4), (Texts{"0-1@0", "2-3@0", "4-5@1", "6-7@1"}));
  EXPECT_EQ(shares(5), (Texts{"0-1@0", "2@0", "3@0", "4-5@1", "6-7@1"}));
}

TEST_F(Topology, KnowsNodesWhoseCpusAlternate) {
  node(0, "0,2,4,6");
  node(1, "1,3,5,7");
  single_cores(0, 7);
  EXPECT_EQ(shares(2), (Texts{"0,2,4,6@0", "1,3,5,7@1"}));
  EXPECT_EQ(shares(4), (Texts{"0,2@0", "4,6@0", "1,3@1", "5,7@1"}));
}

TEST_F(Topology, DividesFourNodesAmongFewerRanks) {
  for (int i = 0; i < 4; ++i) {
    node(i, std::to_string(2 * i) + "-" + std::to_string(2 * i + 1));
  }
  single_cores(0, 7);
  EXPECT_EQ(shares(1), (Texts{"0-7"}));
  EXPECT_EQ(shares(2), (Texts{"0-3", "4-7"}));
  EXPECT_EQ(shares(3), (Texts{"0-2", "3-5", "6-7@3"}));
  EXPECT_EQ(shares(4), (Texts{"0-1@0", "2-3@1", "4-5@2", "6-7@3"}));
}

TEST_F(Topology, GivesRanksToNodesByTheirCores) {
  node(0, "0-5");
  node(1, "6-7");
  node(2, "");  // memory alone
  single_cores(0, 7);
  EXPECT_EQ(shares(4), (Texts{"0-1@0", "2-3@0", "4-5@0", "6-7@1"}));
  EXPECT_EQ(shares(2), (Texts{"0-2@0", "3-5@0"}));  // three cores each beat six and two
}

TEST_F(Topology, UsesOnlyWhatIsAllowed) {
  node(0, "0-3,8-11");
  node(1, "4-7,12-15");
  for (int i = 0; i < 8; ++i) core(std::to_string(i) + "," + std::to_string(i + 8));
  EXPECT_EQ(shares(2, "1,3,6,9"), (Texts{"1,9@0", "3@0"}));  // one half of core 3
  EXPECT_EQ(shares(2, "4-5,12-13"), (Texts{"4,12", "5,13"}));
  EXPECT_EQ(shares(4, "1,3,6,9"), Texts{});
}

TEST_F(Topology, StepsOverOfflineCoresAndHoles) {
  node(0, "0,2-3,9");
  core("0");
  core("2-3");
  core("9");
  folder_.write(cpu_folder(1) + "/online", "0\n");
  folder_.write("sys/devices/system/cpu/cpuidle/current_driver", "none\n");
  EXPECT_EQ(shares(3), (Texts{"0", "2-3", "9"}));
  EXPECT_EQ(shares(2), (Texts{"0,2-3", "9"}));
}

TEST_F(Topology, TakesEveryAllowedCpuForACoreWhereTheKernelShowsNone) {
  EXPECT_EQ(shares(2, "2-4"), (Texts{"2-3", "4"}));
  EXPECT_EQ(shares(2), Texts{});
}

TEST_F(Topology, SharesAreDisjointAndNeverPoorerThanHalfTheirPart) {
  for (int i = 0; i < 3; ++i) {
    node(i, std::to_string(7 * i) + "-" + std::to_string(7 * i + 6));
  }
  single_cores(0, 20);
  const auto cores = cpu_cores(roots(), std::nullopt);
  for (int ranks = 1; ranks <= 21; ++ranks) {
    const auto all = divide_cores(cores, ranks);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(ranks));
    CpuList seen;
    for (const auto& share : all) seen.insert(seen.end(), share.cpus.begin(), share.cpus.end());
    EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
    EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end()) << ranks;
    EXPECT_GE(2 * fewest_cores(all), 21 / ranks) << ranks;
    EXPECT_GE(fewest_cores(all), 1);
  }
}

TEST_F(Topology, ReadsTheQuotaOfBothVersionsOfControlGroups) {
  EXPECT_EQ(cpu_quota(roots()), std::nullopt);
  folder_.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000\n");
  folder_.write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpu_quota(roots()), 3);
  folder_.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cpu_quota(roots()), std::nullopt);
  folder_.write("sys/fs/cgroup/cpu.max", "9223372036854775807 1\n");
  EXPECT_EQ(cpu_quota(roots()), 65535);
}

TEST_F(Topology, FindsTheCpusNearAGpu) {
  folder_.write("sys/bus/pci/devices/0000:18:00.0/local_cpulist", "0-3,8-11\n");
  EXPECT_EQ(cpus_near({0, "H100", "", "0000:18:00.0"}, roots()),
            (CpuList{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(cpus_near({0, "H100", "", "0000:99:00.0"}, roots()), CpuList{});
  EXPECT_EQ(cpus_near({0, "H100", "", ""}, roots()), CpuList{});
}

TEST(CpuList, IsReadAndWrittenAsTheKernelWritesIt) {
  for (const char* text : {"0", "0-3", "0-1,4,6-7", "", "65535"}) {
    EXPECT_EQ(cpu_list_text(parse_cpu_list(text)), text);
  }
  EXPECT_EQ(cpu_list_text(parse_cpu_list(" 3,1-2,2\n")), "1-3");
  for (const char* bad : {"x", "1-", "-1", "1-2-3", "65536", "0-99999999999", "1,,2", "1;2"}) {
    EXPECT_EQ(parse_cpu_list(bad), CpuList{}) << bad;
  }
}

TEST(CoreShare, DescribesItself) {
  EXPECT_EQ(to_string({{0, 1, 4, 5}, 2, 1}), "CPUs 0-1,4-5 (2 cores, memory of node 1)");
  EXPECT_EQ(to_string({{3}, 1, std::nullopt}), "CPU 3 (1 core)");
}

TEST(CpuAffinity, IsLeftToAnEnvironmentThatNamesCores) {
  struct Row {
    const char* name;
    const char* value;
    bool names_cores;
  };
  for (const Row& row : {Row{"GOMP_CPU_AFFINITY", "0-3", true}, Row{"OMP_PLACES", "{0},{1}", true},
                         Row{"OMP_PLACES", "cores", false}, Row{"OMP_PROC_BIND", "close", false},
                         Row{"KMP_AFFINITY", "explicit,proclist=[0,1]", true},
                         Row{"KMP_AFFINITY", "granularity=fine,compact,1,0", false}}) {
    const ScopedEnv scope(row.name, row.value);
    EXPECT_EQ(environment_names_cores(), row.names_cores) << row.name << "=" << row.value;
  }
}

// The calls below change their thread for good, so each has one of its own.
void on_a_thread(const std::function<void()>& work) {
  std::thread(work).join();
}

TEST(CpuAffinity, BindsAThreadAndWhatItStarts) {
  const CpuList last = {allowed_cpus().value().back()};
  on_a_thread([&] {
    EXPECT_TRUE(CpuBinding({last, 1, std::nullopt}).apply());
    EXPECT_EQ(allowed_cpus(), last);
    on_a_thread([&] { EXPECT_EQ(allowed_cpus(), last); });
  });
}

TEST(CpuAffinity, IsRefusedForCpusThatAreNotThere) {
  on_a_thread([] {
    const auto before = allowed_cpus();
    EXPECT_FALSE(CpuBinding({{65535}, 1, std::nullopt}).apply());
    EXPECT_EQ(allowed_cpus(), before);
  });
}

int memory_policy() {
  int policy = -1;
  syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0);
  return policy;
}

TEST(CpuAffinity, PrefersMemoryOfTheNodeUnlessSomeoneHasChosen) {
  const unsigned long node = 1;
  bool permitted = false;
  on_a_thread([&] { permitted = syscall(SYS_set_mempolicy, MPOL_PREFERRED, &node, 65UL) == 0; });
  if (!permitted) GTEST_SKIP() << "no NUMA policy may be set in this sandbox";
  on_a_thread([&] {
    CpuBinding({{0}, 1, std::nullopt}).prefer_memory();
    EXPECT_EQ(memory_policy(), MPOL_DEFAULT);
    CpuBinding({{0}, 1, 0}).prefer_memory();
    EXPECT_EQ(memory_policy(), MPOL_PREFERRED);
  });
  on_a_thread([&] {
    ASSERT_EQ(syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &node, 65UL), 0);
    CpuBinding({{0}, 1, 0}).prefer_memory();
    EXPECT_EQ(memory_policy(), MPOL_INTERLEAVE);
  });
}

}  // namespace
}  // namespace accelerate
