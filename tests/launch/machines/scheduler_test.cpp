// What a launcher takes from the environment of a scheduler, and how flags and file win over it.
// The variables are those that Slurm 22.05, Open MPI 4.1, MPICH 4.0 and Kubeflow's operators set.
#include "accelerate/launch/machines/scheduler.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/launch/protocol.h"
#include "accelerate/launch/settings.h"
#include "tests/support/errors.h"
#include "tests/support/support.h"

namespace accelerate::testing {
namespace {

using Flags = std::map<std::string, std::string>;

Environment with(Environment first, const Environment& more) {
  for (const auto& [name, value] : more) first[name] = value;
  return first;
}

const Environment kSlurm = {
    {"SLURM_JOB_ID", "7"},
    {"SLURM_STEP_ID", "0"},
    {"SLURM_NNODES", "2"},
    {"SLURM_STEP_NUM_NODES", "2"},
    {"SLURM_STEP_NUM_TASKS", "2"},
    {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
    {"SLURM_STEP_NODELIST", "n[03-04]"},
    {"SLURM_NODEID", "1"},
    {"SLURM_PROCID", "1"},
    {"SLURM_LOCALID", "0"},
};
const Environment kTasksOfSlurm = with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "4"},
                                                {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                                                {"SLURM_PROCID", "3"},
                                                {"SLURM_LOCALID", "1"}});
const Environment kOpenMpi = {{"OMPI_COMM_WORLD_SIZE", "3"},
                              {"OMPI_COMM_WORLD_RANK", "2"},
                              {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                              {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                              {"MASTER_ADDR", "head"},
                              {"MASTER_PORT", "4000"}};
const Environment kMpich = {{"PMI_SIZE", "2"},
                            {"PMI_RANK", "0"},
                            {"MPI_LOCALNRANKS", "1"},
                            {"MPI_LOCALRANKID", "0"},
                            {"MASTER_ADDR", "head"}};
const Environment kTrainJob = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                               {"HOSTNAME", "job-node-0-1"},
                               {"JOB_COMPLETION_INDEX", "1"},
                               {"PET_NNODES", "2"},
                               {"PET_NODE_RANK", "1"},
                               {"PET_NPROC_PER_NODE", "4"},
                               {"PET_MASTER_ADDR", "job-node-0-0.job"},
                               {"PET_MASTER_PORT", "29400"}};
const Environment kOldPyTorchJob = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                                    {"HOSTNAME", "job-worker-1"},
                                    {"WORLD_SIZE", "3"},
                                    {"RANK", "2"},
                                    {"MASTER_ADDR", "job-master-0"},
                                    {"MASTER_PORT", "23456"}};
const Environment kJobSet = {{"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
                             {"JOB_COMPLETION_INDEX", "3"},
                             {"MASTER_ADDR", "train-workers-0-0.train"}};

// "machines machine address:port [ranks=N] [gpus=N]", or "task RANK/SIZE LOCAL/SIZE address:port".
std::string summary(const Environment& environment) {
  const auto scheduler = read_scheduler(environment);
  if (!scheduler) return "none";
  const auto text = [](const std::optional<SchedulerValue>& value) {
    return value ? value->text : "-";
  };
  const std::string place = text(scheduler->address) + ":" + text(scheduler->port);
  if (const auto& task = scheduler->task) {
    return scheduler->name + " task " + std::to_string(task->rank) + "/" +
           std::to_string(task->world_size) + " " + std::to_string(task->local_rank) + "/" +
           std::to_string(task->local_world_size) + " " + place;
  }
  if (!scheduler->advice.empty()) return scheduler->advice;
  return scheduler->name + " " + text(scheduler->machines) + " " + text(scheduler->machine) + " " +
         place + (scheduler->ranks ? " ranks=" + scheduler->ranks->text : "") +
         (scheduler->gpus ? " gpus=" + scheduler->gpus->text : "");
}

struct Row {
  const char* name;
  Environment environment;
  std::string expected;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}

class Schedulers : public ::testing::TestWithParam<Row> {};

TEST_P(Schedulers, SayWhereTheMachinesAre) {
  EXPECT_EQ(summary(GetParam().environment), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    All, Schedulers,
    ::testing::Values(
        Row{"None", {}, "none"}, Row{"MasterAlone", {{"MASTER_ADDR", "a"}}, "none"},
        Row{"RankOfALauncher", with(kSlurm, {{"LOCAL_RANK", "0"}}), "none"},
        Row{"RankWithoutKubernetes", {{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "none"},
        // Slurm. The port: 12000 + (7 * 61) % 20000.
        Row{"Slurm", kSlurm, "Slurm 2 1 n03:12427"},
        Row{"SecondStep", with(kSlurm, {{"SLURM_STEP_ID", "1"}}), "Slurm 2 1 n03:12428"},
        Row{"NextJob", with(kSlurm, {{"SLURM_JOB_ID", "8"}}), "Slurm 2 1 n03:12488"},
        Row{"SlurmGpus", with(kSlurm, {{"SLURM_GPUS_ON_NODE", "8"}}), "Slurm 2 1 n03:12427 gpus=8"},
        Row{"SlurmMaster", with(kSlurm, {{"MASTER_ADDR", "10.0.0.3"}, {"MASTER_PORT", "999"}}),
            "Slurm 2 1 10.0.0.3:999"},
        Row{"SlurmWithPmi", with(kSlurm, {{"PMI_SIZE", "2"}, {"PMI_RANK", "1"}}),
            "Slurm 2 1 n03:12427"},
        Row{"TasksOfSlurm", kTasksOfSlurm, "Slurm task 3/4 1/2 n03:12427"},
        Row{"BatchScriptOfOneNode", {{"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "1"}}, "none"},
        Row{"BatchScript",
            {{"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "2"}, {"SLURM_NODEID", "0"}},
            "SLURM_NNODES is 2, but srun did not start this launcher, which therefore uses this "
            "node alone. To use all nodes: srun --ntasks-per-node 1 accelerate launch …"},
        // MPI.
        Row{"OpenMpi", kOpenMpi, "mpirun 3 2 head:4000"}, Row{"Mpich", kMpich, "mpirun 2 0 head:-"},
        Row{"MpiInSlurm",
            with(kMpich, {{"MASTER_ADDR", ""},
                          {"SLURM_JOB_ID", "7"},
                          {"SLURM_JOB_NODELIST", "gpu-[001-010]"},
                          {"SLURM_STEP_NUM_TASKS", "2"}}),
            "mpirun 2 0 gpu-001:12427"},
        Row{"TasksOfOpenMpi",
            with(kOpenMpi,
                 {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}),
            "mpirun task 2/3 1/2 head:4000"},
        // Kubernetes.
        Row{"TrainJob", kTrainJob, "Kubernetes 2 1 job-node-0-0.job:29400 ranks=4"},
        Row{"FirstPodUsesItsOwnName",
            with(kTrainJob, {{"HOSTNAME", "job-node-0-0"}, {"PET_NODE_RANK", "0"}}),
            "Kubernetes 2 0 job-node-0-0:29400 ranks=4"},
        Row{"TrainJobAuto", with(kTrainJob, {{"PET_NPROC_PER_NODE", "auto"}}),
            "Kubernetes 2 1 job-node-0-0.job:29400"},
        Row{"IndexInsteadOfRank", with(kTrainJob, {{"PET_NODE_RANK", ""}}),
            "Kubernetes 2 1 job-node-0-0.job:29400 ranks=4"},
        Row{"FixedRange", with(kTrainJob, {{"PET_NNODES", "2:2"}}),
            "Kubernetes 2 1 job-node-0-0.job:29400 ranks=4"},
        Row{"Endpoint",
            {{"PET_NNODES", "2"}, {"PET_NODE_RANK", "1"}, {"PET_RDZV_ENDPOINT", "a:29401"}},
            "torchrun 2 1 a:29401"},
        Row{"OldPyTorchJob", kOldPyTorchJob, "Kubernetes 3 2 job-master-0:23456"},
        Row{"OldMasterOnLocalhost",
            with(kOldPyTorchJob,
                 {{"HOSTNAME", "job-master-0"}, {"RANK", "0"}, {"MASTER_ADDR", "localhost"}}),
            "Kubernetes 3 0 job-master-0:23456"},
        Row{"JobSet", kJobSet, "Kubernetes - 3 train-workers-0-0.train:-"}),
    [](const auto& info) { return std::string(info.param.name); });

class SchedulersThatContradict : public ::testing::TestWithParam<Row> {};

TEST_P(SchedulersThatContradict, NameTheVariable) {
  const auto message =
      message_of<ConfigError>([] { (void)read_scheduler(GetParam().environment); });
  EXPECT_NE(message.find(GetParam().expected), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    All, SchedulersThatContradict,
    ::testing::Values(
        Row{"NodeBeyond", with(kSlurm, {{"SLURM_NODEID", "2"}}),
            "SLURM_NODEID is '2', and SLURM_STEP_NUM_NODES is '2': machines are numbered from 0 to "
            "1"},
        Row{"NoNumber", with(kSlurm, {{"SLURM_NODEID", "first"}}),
            "SLURM_NODEID is 'first'; it must be a whole number from 0"},
        Row{"NoNode", with(kSlurm, {{"SLURM_NODEID", ""}}), "SLURM_NODEID is not set"},
        Row{"NodeList", with(kSlurm, {{"SLURM_STEP_NODELIST", "n[3"}}),
            "SLURM_STEP_NODELIST is 'n[3'; it must be a list of hosts"},
        Row{"TaskBeyond", with(kTasksOfSlurm, {{"SLURM_PROCID", "4"}}),
            "SLURM_PROCID says that this is task 4"},
        Row{"TaskUnknown", with(kTasksOfSlurm, {{"SLURM_STEP_TASKS_PER_NODE", "?"}}),
            "SLURM_STEP_TASKS_PER_NODE does not say which task"},
        Row{"Port", with(kSlurm, {{"MASTER_PORT", "70000"}}), "MASTER_PORT is '70000'"},
        Row{"MpiRank", with(kOpenMpi, {{"OMPI_COMM_WORLD_RANK", "3"}}),
            "OMPI_COMM_WORLD_RANK is '3', and OMPI_COMM_WORLD_SIZE is '3'"},
        Row{"MpiNoRank", with(kMpich, {{"PMI_RANK", ""}}),
            "PMI_RANK or MPI_LOCALRANKID is not set"},
        Row{"Elastic", with(kTrainJob, {{"PET_NNODES", "1:4"}}),
            "PET_NNODES is '1:4'; a job here has a fixed number of machines"},
        Row{"NodeRank", with(kTrainJob, {{"PET_NODE_RANK", "7"}}), "PET_NODE_RANK is '7', and"},
        Row{"Ranks", with(kTrainJob, {{"PET_NPROC_PER_NODE", "many"}}),
            "PET_NPROC_PER_NODE is 'many'"},
        Row{"Pods", with(kOldPyTorchJob, {{"RANK", "3"}}), "RANK is '3', and WORLD_SIZE is '3'"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(HostLists, AreExpandedAsSlurmDoes) {
  const std::pair<const char*, const char*> rows[] = {
      {"n1", "n1"},
      {"n[1-3,7],gpu-[009-011]", "n1 n2 n3 n7 gpu-009 gpu-010 gpu-011"},
      {"rack[1-2]n[01-02]-ib", "rack1n01-ib rack1n02-ib rack2n01-ib rack2n02-ib"},
      {"b,a.example.org,10.0.0.1", "b a.example.org 10.0.0.1"},
      {"n[8-10]", "n8 n9 n10"}};
  for (const auto& [text, hosts] : rows) {
    const auto expanded = expand_host_list(text);
    ASSERT_TRUE(expanded) << text;
    EXPECT_EQ(join(*expanded, " "), hosts);
  }
}

TEST(HostLists, OfOtherFormsAreRefused) {
  for (const char* text : {"", "n[1-", "n[3-1]", "n[]", "n1]", "a,,b", "n[1-2", "n[x]", "[1-9",
                           "n[1-99999]", "n[1-999][1-999]", "n[-1]", "a b", "n[1-2]]"})
    EXPECT_FALSE(expand_host_list(text)) << text;
}

// --- What becomes of it --------------------------------------------------------------------------

class ScheduledSettings : public ::testing::Test {
 protected:
  static LaunchOptions merge(const Environment& environment, Flags flags = {},
                             const std::string& file = "", Machine machine = {0, 8}) {
    LaunchRequest request;
    request.flags = std::move(flags);
    if (!file.empty()) {
      request.config = parse_cluster_config("distributed_type: MULTI_CPU\n" + file, "c.yaml");
      request.config_file = "c.yaml";
    }
    if (!request.says_all_of_machines()) request.scheduler = read_scheduler(environment);
    return merge_settings(request, machine);
  }

  static std::string refusal(const Environment& environment, const Flags& flags = {},
                             const std::string& file = "") {
    return message_of<ConfigError>([&] { (void)merge(environment, flags, file); });
  }

  // "machines machine ranks address:port".
  static std::string place(const LaunchOptions& settings) {
    return std::to_string(settings.num_machines) + " " + std::to_string(settings.machine_rank) +
           " " + std::to_string(settings.num_processes) + " " + settings.text("main_process_ip") +
           ":" + std::to_string(settings.main_process_port);
  }

  ScopedEnv threads_{"OMP_NUM_THREADS", nullptr};
  ScopedEnv affinity_{"ACCELERATE_CPU_AFFINITY", nullptr};
};

TEST_F(ScheduledSettings, NeedNoFlags) {
  EXPECT_EQ(place(merge(kSlurm)), "2 1 1 n03:12427");
  EXPECT_EQ(place(merge(kOpenMpi)), "3 2 1 head:4000");
  EXPECT_EQ(place(merge(kMpich)), "2 0 1 head:29500");
  EXPECT_EQ(place(merge(kTrainJob)), "2 1 4 job-node-0-0.job:29400");
  EXPECT_EQ(place(merge(kOldPyTorchJob)), "3 2 1 job-master-0:23456");
  EXPECT_EQ(place(merge(kJobSet, {{"num_machines", "4"}})), "4 3 1 train-workers-0-0.train:29500");
}

TEST_F(ScheduledSettings, AreToldInOneLine) {
  EXPECT_EQ(merge(kSlurm, {{"main_process_port", "5000"}}).from_scheduler,
            "taken from Slurm: num_machines 2 (SLURM_STEP_NUM_NODES), machine_rank 1 "
            "(SLURM_NODEID), main_process_ip n03 (SLURM_STEP_NODELIST)");
  EXPECT_EQ(merge({}).from_scheduler, "");
}

TEST_F(ScheduledSettings, GiveWayToFlags) {
  EXPECT_EQ(place(merge(kSlurm, {{"num_machines", "1"}})), "1 0 1 :0");
  EXPECT_EQ(place(merge(kSlurm, {{"main_process_ip", "::1"}, {"num_processes", "6"}})),
            "2 1 3 ::1:12427");
  EXPECT_EQ(place(merge(kSlurm,
                        {{"num_machines", "3"}, {"machine_rank", "2"}, {"main_process_ip", "h"}})),
            "3 2 1 h:29500");
}

TEST_F(ScheduledSettings, GiveWayToTheFile) {
  const std::string ranks = "num_processes: 3\n";
  EXPECT_EQ(place(merge(kSlurm, {}, ranks + "main_process_ip: h\nmain_process_port: 5000\n")),
            "2 1 3 h:5000");
  EXPECT_EQ(place(merge(kTrainJob, {}, ranks)), "2 1 3 job-node-0-0.job:29400");
  EXPECT_EQ(place(merge(kTrainJob, {}, "num_processes: -1\n")), "2 1 4 job-node-0-0.job:29400");
  const auto other = merge(kSlurm, {}, ranks + "num_machines: 3\nmain_process_ip: h\n");
  EXPECT_EQ(place(other), "3 0 1 h:29500");
  ASSERT_FALSE(other.warnings.empty());
  EXPECT_EQ(other.warnings[0],
            "'num_machines' in c.yaml is '3', and SLURM_STEP_NUM_NODES is '2': the file wins, and "
            "nothing is taken from Slurm.");
}

// `accelerate config` writes one machine, number 0, into every file.
TEST_F(ScheduledSettings, TakeAFileOfOneMachineAsEachMachines) {
  const std::string file = "num_machines: 1\nmachine_rank: 0\nnum_processes: 4\n";
  EXPECT_EQ(place(merge(kSlurm, {}, file)), "2 1 4 n03:12427");
  EXPECT_EQ(merge(kSlurm, {}, file).text("num_processes"), "8") << "of all machines";
  EXPECT_EQ(place(merge(kSlurm, {}, "num_machines: 2\nmachine_rank: 0\nnum_processes: 4\n")),
            "2 1 2 n03:12427");
}

TEST_F(ScheduledSettings, UseTheGpusThatAreGranted) {
  const auto gpus = with(kSlurm, {{"SLURM_GPUS_ON_NODE", "2"}});
  EXPECT_EQ(merge(gpus, {}, "", {8, 8}).num_processes, 2);
  EXPECT_EQ(merge(gpus, {}, "", {1, 8}).num_processes, 1) << "no more than can be seen";
  EXPECT_EQ(merge(gpus, {{"cpu", "True"}}, "", {8, 8}).num_processes, 1);
}

TEST_F(ScheduledSettings, AreThoseOfOneMachineWhereThereIsOne) {
  const auto one =
      with(kSlurm,
           {{"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_NODEID", "0"}});
  EXPECT_EQ(place(merge(one)), "1 0 1 :0");
  EXPECT_TRUE(merge(one).alone);
  const auto pod = with(kTrainJob, {{"PET_NNODES", "1"}, {"PET_NODE_RANK", "0"}});
  EXPECT_EQ(place(merge(pod)), "1 0 4 :0");
  // A Job whose pods train apart.
  EXPECT_EQ(place(merge(kJobSet)), "1 0 1 :0");
}

TEST_F(ScheduledSettings, OfATaskAreThoseOfARank) {
  const auto settings = merge(kTasksOfSlurm, {{"mixed_precision", "bf16"}});
  const auto plan = make_plan(settings, ProgramKind::native);
  ASSERT_EQ(plan.ranks.size(), 1U);
  EXPECT_EQ(plan.ranks[0], (Environment{{"RANK", "3"},
                                        {"WORLD_SIZE", "4"},
                                        {"LOCAL_RANK", "1"},
                                        {"LOCAL_WORLD_SIZE", "2"},
                                        {"MASTER_ADDR", "n03"},
                                        {"MASTER_PORT", "12427"}}));
  EXPECT_EQ(plan.first_rank, 3);
  EXPECT_EQ(plan.shared.at("ACCELERATE_MIXED_PRECISION"), "bf16");
  EXPECT_EQ(plan.shared.at("OMP_NUM_THREADS"), "4") << "half of the cores";
  EXPECT_EQ(settings.from_scheduler, "") << "the first task tells";
  const auto first = merge(with(kTasksOfSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}}));
  EXPECT_EQ(first.from_scheduler,
            "Slurm starts 4 tasks, and each becomes a rank. They meet at n03, port 12427.");
}

TEST_F(ScheduledSettings, OfTasksOnOneMachineNeedNoAddress) {
  const Environment tasks = {
      {"PMI_SIZE", "2"}, {"PMI_RANK", "1"}, {"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "1"}};
  EXPECT_EQ(merge(tasks).task.at("MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(merge(tasks).task.at("MASTER_PORT"), "29500");
  EXPECT_EQ(merge(tasks, {{"num_processes", "2"}}).num_processes, 1);
}

TEST_F(ScheduledSettings, ThatAreNotEnoughAreRefusedWithTheCure) {
  const auto nowhere = refusal(with(kMpich, {{"MASTER_ADDR", ""}}));
  EXPECT_NE(nowhere.find("PMI_SIZE is '2', but mpirun does not tell the address of machine 0"),
            std::string::npos)
      << nowhere;
  EXPECT_NE(nowhere.find("-genv MASTER_ADDR HOST"), std::string::npos) << nowhere;
  const auto nobody = refusal({{"PET_NNODES", "2"}, {"PET_MASTER_ADDR", "a"}});
  EXPECT_NE(nobody.find("PET_NNODES is '2', but nothing in the environment of torchrun says which "
                        "machine this is"),
            std::string::npos)
      << nobody;
  const auto both = refusal(kTasksOfSlurm, {{"num_processes", "8"}});
  EXPECT_NE(both.find("Slurm starts 4 tasks, 2 on this machine, and each becomes a rank, so "
                      "--num_processes 8 says nothing"),
            std::string::npos)
      << both;
  const auto uneven = refusal(kSlurm, {{"num_processes", "3"}});
  EXPECT_NE(uneven.find("which 2 machines cannot share equally"), std::string::npos) << uneven;
  const auto tasks = refusal(with(kOpenMpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                             {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                             {"MASTER_ADDR", ""}}));
  EXPECT_NE(tasks.find("mpirun starts 3 tasks on several machines"), std::string::npos) << tasks;
}

}  // namespace
}  // namespace accelerate::testing
