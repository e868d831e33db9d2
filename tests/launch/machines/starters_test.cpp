// Hostfiles, and the programs that start ranks or launchers on their hosts: mpirun and ssh. Here these
// are scripts in PATH; schedulers.sh uses the real ones.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <memory>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/machines/hosts.h"
#include "accelerate/launch/machines/mpirun.h"
#include "accelerate/launch/machines/remote.h"
#include "accelerate/launch/port.h"
#include "tests/launch/support.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

using namespace std::chrono_literals;
using Words = std::vector<std::string>;

// "a:0,1 b:2", with a star where slots are left out.
std::string text_of_hosts(const std::vector<Host>& hosts) {
  Words words;
  for (const auto& host : hosts) {
    Words slots;
    for (const int slot : host.slots) slots.push_back(std::to_string(slot));
    words.push_back(host.name + ":" + join(slots, ",") + (host.is_whole ? "" : "*"));
  }
  return join(words, " ");
}

const std::string kHosts = "# two machines\nnode1 slots=2\n\n user@node2   slots=3 # the larger\n";

TEST(HostFiles, AreReadAndFilteredAsDeepSpeedDoes) {
  const auto filtered = [](const std::string& inclusion, const std::string& exclusion) {
    return text_of_hosts(filter_hosts(parse_hosts(kHosts, "hosts"), inclusion, exclusion));
  };
  EXPECT_EQ(filtered("", ""), "node1:0,1 user@node2:0,1,2");
  EXPECT_EQ(filtered("node1", ""), "node1:0,1");
  EXPECT_EQ(filtered("node1:1", ""), "node1:1*");
  EXPECT_EQ(filtered("", "node1"), "user@node2:0,1,2");
  EXPECT_EQ(filtered("", "node1:0"), "node1:1* user@node2:0,1,2");
  EXPECT_EQ(filtered("", "node1:0,1"), "user@node2:0,1,2");
}

TEST(HostFiles, ThatCannotBeReadAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"", "hosts names no hosts"},
      {"node1", "line 1 of hosts is 'node1'; it must be"},
      {"a slots=1\nb slots=x", "line 2 of hosts is 'b slots=x'"},
      {"a slots=0", "line 1 of hosts"},
      {"a slots=1 b", "line 1 of hosts"},
      {"-oProxyCommand=x slots=1", "line 1 of hosts"},
      {"a slots=1\na slots=2", "names 'a' for the second time"}};
  for (const auto& [text, fault] : rows) {
    const auto message = message_of<ConfigError>([&] { (void)parse_hosts(text, "hosts"); });
    EXPECT_NE(message.find(fault), std::string::npos) << message;
  }
  const auto refusal = [](const std::string& inclusion, const std::string& exclusion) {
    return message_of<ConfigError>(
        [&] { (void)filter_hosts(parse_hosts("node1 slots=2", "hosts"), inclusion, exclusion); });
  };
  EXPECT_NE(refusal("node2", "").find("no host 'node2'. Did you mean 'node1'?"), std::string::npos);
  EXPECT_NE(refusal("node1:2", "").find("'node1' has no slot '2'; it has 0 to 1"),
            std::string::npos);
  EXPECT_NE(refusal("node1", "node1").find("exclude each other"), std::string::npos);
  EXPECT_NE(refusal("", "node1").find("no host is left"), std::string::npos);
}

TEST(Mpirun, IsGivenTheFlagsOfItsMaker) {
  LaunchOptions settings;
  settings.values["mpirun_hostfile"] = {"hosts", Setting::Source::flag, ""};
  settings.values["num_processes"] = {"8", Setting::Source::flag, ""};
  settings.num_machines = 2;
  settings.num_processes = 4;
  const Environment environment = {{"ACCELERATE_JOB_TOKEN", "secret"}, {"MASTER_ADDR", "a"}};
  const auto words = [&](const char* version) {
    return join(mpirun_words("/bin/mpirun", version, settings, environment), " ");
  };
  EXPECT_EQ(words("mpirun (Open MPI) 4.1.4"),
            "/bin/mpirun --hostfile hosts --npernode 4 -n 8 --bind-to socket -x "
            "ACCELERATE_JOB_TOKEN -x MASTER_ADDR");
  EXPECT_EQ(words("mpirun.openmpi (OpenRTE) 4.1.4"), words("mpirun (Open MPI) 4.1.4"));
  EXPECT_EQ(words("HYDRA build details"), "/bin/mpirun -f hosts -ppn 4 -n 8");
  settings.values.erase("num_processes");
  EXPECT_EQ(words("Intel(R) MPI Library"), "/bin/mpirun -f hosts -ppn 4");
}

// Starts the command with scripts in front of PATH.
class Starters : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(accelerate_program())) GTEST_SKIP() << "built without the command";
    for (const char* name : {"bin", "marks"}) std::filesystem::create_directory(path(name));
    folder_.write("hosts", "node1 slots=2\nnode2 slots=2\n");
  }
  void TearDown() override {
    EXPECT_TRUE(eventually([&] { return processes_tagged(tag_) == 0; }, 20s));
  }

  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path() / name; }

  void write_program(const std::string& name, const std::string& text) {
    folder_.write("bin/" + name, "#!/bin/sh\n" + text);
    std::filesystem::permissions(path("bin/" + name), std::filesystem::perms::owner_all);
  }

  // A program that runs its last word in a shell of its own, as sshd does, and notes its words.
  void write_ssh() {
    write_program("ssh", "echo \"$@\" >> " + path("words") +
                             "\nfor last; do :; done\ncd /\nexec sh -c \"$last\"\n");
  }

  Background& start(const Words& flags, const Words& words, const Words& variables = {}) {
    Words argv = {"env", "PATH=" + path("bin") + ":" + std::getenv("PATH")};
    argv.insert(argv.end(), variables.begin(), variables.end());
    argv.insert(argv.end(), {accelerate_program(), "launch", "--cpu"});
    argv.insert(argv.end(), flags.begin(), flags.end());
    argv.insert(argv.end(), {probe_program(), tag_});
    argv.insert(argv.end(), words.begin(), words.end());
    launcher_ = std::make_unique<Background>(argv, path("out"));
    return *launcher_;
  }

  Background& start_by_ssh(const Words& words, Words flags = {}) {
    write_ssh();
    flags.insert(flags.end(),
                 {"--deepspeed_hostfile", path("hosts"), "--main_process_ip", "127.0.0.1",
                  "--main_process_port", std::to_string(free_port("127.0.0.1"))});
    return start(flags, words, {"ACCELERATE_JOB_TOKEN=" + kToken});
  }

  [[nodiscard]] bool rank_has(int rank, const std::string& assignment) const {
    const std::string all = '\0' + text_of(path("marks/" + std::to_string(rank)));
    return all.find('\0' + assignment + '\0') != std::string::npos;
  }
  [[nodiscard]] std::string errors() const { return text_of(path("out.err")); }

  const std::string kToken = "00112233445566778899aabbccddeeff";
  const std::string tag_ = unique_tag();
  TemporaryFolder folder_;
  std::unique_ptr<Background> launcher_;
};

TEST_F(Starters, MpirunTakesThePlaceOfTheLauncher) {
  write_program("mpirun",
                "if [ \"$1\" = --version ]; then echo 'mpirun (Open MPI) 4.1.4'; exit; fi\n"
                "echo \"$@\" > " +
                    path("words") + "\nenv > " + path("environment") + "\nexit 5\n");
  auto& launcher = start({"--mpirun_hostfile", "hosts", "--num_machines", "2", "--num_processes",
                          "8", "--main_process_ip", "10.0.0.1", "--mixed_precision", "bf16"},
                         {"exit=0"});
  EXPECT_EQ(launcher.wait(20s), 5) << errors();
  const std::string words = text_of(path("words"));
  EXPECT_TRUE(words.starts_with("--hostfile hosts --npernode 4 -n 8 --bind-to socket -x "))
      << words;
  EXPECT_TRUE(words.ends_with(probe_program() + " " + tag_ + " exit=0\n")) << words;
  const std::string environment = text_of(path("environment"));
  for (const char* line : {"\nMASTER_ADDR=10.0.0.1\n", "\nMASTER_PORT=29500\n",
                           "\nACCELERATE_MIXED_PRECISION=bf16\n", "\nACCELERATE_JOB_TOKEN="})
    EXPECT_NE(environment.find(line), std::string::npos) << line;
}

TEST_F(Starters, SshStartsALauncherOnEachHost) {
  EXPECT_EQ(start_by_ssh({"env=" + path("marks")}).wait(30s), 0) << errors();
  for (int rank = 0; rank < 4; ++rank) {
    for (const auto& assignment :
         {"RANK=" + std::to_string(rank), "GROUP_RANK=" + std::to_string(rank / 2),
          std::string("WORLD_SIZE=4"), "ACCELERATE_JOB_TOKEN=" + kToken})
      EXPECT_TRUE(rank_has(rank, assignment)) << rank << " " << assignment;
  }
  const std::string words = text_of(path("words"));
  EXPECT_NE(words.find("node1 exec sh -c"), std::string::npos) << words;
  EXPECT_NE(words.find("node2 exec sh -c"), std::string::npos) << words;
  EXPECT_EQ(words.find(kToken), std::string::npos) << words;
}

TEST_F(Starters, SshLeavesOutFilteredHosts) {
  auto& launcher =
      start_by_ssh({"env=" + path("marks")}, {"--deepspeed_exclusion_filter", "node1"});
  EXPECT_EQ(launcher.wait(30s), 0) << errors();
  EXPECT_EQ(entries(path("marks")), 2);
  EXPECT_EQ(text_of(path("words")).find("node1"), std::string::npos);
}

TEST_F(Starters, SshEndsAllWhenARankFails) {
  EXPECT_EQ(start_by_ssh({"3:exit=9", "sleep=60000"}).wait(30s), 9) << errors();
}

TEST_F(Starters, SshEndsAllWhenItIsAskedTo) {
  auto& launcher = start_by_ssh({"mark=" + path("marks"), "sleep=60000"});
  ASSERT_TRUE(eventually([&] { return entries(path("marks")) == 4; }, 20s)) << errors();
  launcher.signal(SIGINT);
  EXPECT_EQ(launcher.wait(30s), 130);
  EXPECT_NE(errors().find("SIGINT ends the launchers on all machines"), std::string::npos)
      << errors();
}

// ssh hands no signal over: the ranks get SIGTERM, and the exit code says what was asked.
TEST_F(Starters, SshEndsAllWhenASchedulerAsks) {
  auto& launcher = start_by_ssh({"mark=" + path("marks"), "catch=15", "sleep=60000"});
  ASSERT_TRUE(eventually([&] { return entries(path("marks")) == 4; }, 20s)) << errors();
  launcher.signal(SIGUSR1);
  EXPECT_EQ(launcher.wait(30s), 138);
  EXPECT_NE(errors().find("SIGUSR1 ends the launchers on all machines"), std::string::npos)
      << errors();
}

// TearDown() sees that nothing is left.
TEST_F(Starters, SshEndsAllWhenTheLauncherIsKilled) {
  auto& launcher = start_by_ssh({"mark=" + path("marks"), "sleep=60000"});
  ASSERT_TRUE(eventually([&] { return entries(path("marks")) == 4; }, 20s)) << errors();
  launcher.signal(SIGKILL);
  EXPECT_EQ(launcher.wait(30s), 137);
}

TEST_F(Starters, SshThatCannotConnectIsNamed) {
  write_program("ssh", "echo 'no route' >&2; exit 255\n");
  auto& launcher = start({"--deepspeed_hostfile", path("hosts")}, {"exit=0"});
  EXPECT_EQ(launcher.wait(30s), 255);
  EXPECT_NE(errors().find("ssh ended with 255, which it does if it cannot connect"),
            std::string::npos)
      << errors();
}

TEST(HostsToStart, AreNoneWhereSomebodyElseStarts) {
  const TemporaryFolder folder;
  const std::string hosts = folder.write("hosts", "a slots=1\nb slots=1\n");
  LaunchRequest request;
  request.flags = {{"deepspeed_hostfile", hosts}};
  EXPECT_EQ(hosts_to_start(request)->size(), 2U);
  request.flags["deepspeed_multinode_launcher"] = "standard";
  EXPECT_FALSE(hosts_to_start(request));
  request.flags["deepspeed_multinode_launcher"] = "pdsh";
  EXPECT_TRUE(hosts_to_start(request));
  request.scheduler = read_scheduler({{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}});
  EXPECT_FALSE(hosts_to_start(request)) << "ssh has started this one";
  request.scheduler.reset();
  request.flags["num_machines"] = "3";
  const auto count = message_of<ConfigError>([&] { (void)hosts_to_start(request); });
  EXPECT_NE(count.find("--num_machines is '3', and"), std::string::npos) << count;
  request.flags["deepspeed_multinode_launcher"] = "slurm";
  const auto slurm = message_of<ConfigError>([&] { (void)hosts_to_start(request); });
  EXPECT_NE(slurm.find("for Slurm srun accelerate launch"), std::string::npos) << slurm;
  request.flags = {};
  request.config = parse_cluster_config(
      "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_hostfile: " + hosts +
          "\nnum_machines: 1\n",
      "c.yaml");
  EXPECT_FALSE(hosts_to_start(request)) << "left over in a file for one machine";
}

TEST(RemoteJobs, HandOverFlagsAndTellWhereTheMachinesAre) {
  const TemporaryFolder folder;
  folder.write("ssh", "");
  std::filesystem::permissions(folder.path() / "ssh", std::filesystem::perms::owner_all);
  const ScopedEnv path("PATH", folder.path().c_str());
  const ScopedEnv token("ACCELERATE_JOB_TOKEN", "00112233445566778899aabbccddeeff");
  const ScopedEnv secret("HF_TOKEN", "hf_secret");
  const ScopedEnv nccl("NCCL_DEBUG", "IN FO");
  LaunchRequest request;
  request.flags = {{"mixed_precision", "bf16"}, {"cpu", "True"}, {"deepspeed_hostfile", "h"}};
  request.config = parse_cluster_config("distributed_type: DEEPSPEED\n", "c.yaml");
  const auto job = remote_job(request, {{"a", {0, 1}}, {"b", {1, 3}, false}}, {"./train", "a b"});
  EXPECT_EQ(job.hosts, (Words{"a", "b"}));
  EXPECT_EQ(job.token, "00112233445566778899aabbccddeeff");
  ASSERT_EQ(job.commands.size(), 2U);
  EXPECT_EQ(job.commands[1][3], "b");
  const std::string& script = job.commands[1][4];
  for (const char* part : {"PET_NNODES=2", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=2", "--cpu",
                           "--mixed_precision bf16", "--gpu_ids 1,3 -- ./train", "NCCL_DEBUG="})
    EXPECT_NE(script.find(part), std::string::npos) << part << " in " << script;
  for (const char* part : {"0011", "hf_secret", "deepspeed_hostfile"})
    EXPECT_EQ(script.find(part), std::string::npos) << part << " in " << script;
  const auto uneven = message_of<ConfigError>(
      [&] { (void)remote_job(request, {{"a", {0, 1}}, {"b", {0}, false}}, {"./train"}); });
  EXPECT_NE(uneven.find("gives 2 slots to a and 1 to b"), std::string::npos) << uneven;
}

}  // namespace
}  // namespace accelerate::testing
