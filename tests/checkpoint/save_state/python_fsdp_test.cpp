// Trainings that FSDP of Python Accelerate saved on two ranks go on here, on any number of ranks,
// sharded or not: goldens of tests/reference/fsdp_folders.py, and what it saves live.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "accelerate/accelerate.h"
#include "accelerate/checkpoint/model_weights.h"
#include "accelerate/formats/shards/merged_weights.h"
#include "accelerate/formats/shards/state_for_python.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/errors.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;
using testing::TemporaryFolder;

constexpr int kFsdpSteps = 5, kRows = 6, kColumns = 4, kWidth = 5;

at::Tensor sine_waves(std::int64_t count, double start, double pace) {
  return torch::sin(torch::arange(count, at::kDouble) * pace + start).to(at::kFloat);
}

// The network of the script, with other weights.
struct FsdpNetImpl : torch::nn::Module {
  FsdpNetImpl() {
    first = register_module("first", torch::nn::Linear(kColumns, kWidth));
    norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({kWidth})));
    last = register_module("last", torch::nn::Linear(kWidth, 2));
    shift = register_buffer("shift", torch::zeros({3}));
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(torch::tanh(norm(first(x)))).mean(1, true) + shift[0];
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  at::Tensor shift;
};
TORCH_MODULE(FsdpNet);

std::vector<torch::optim::OptimizerParamGroup> groups_of(FsdpNet& net, const Json& row) {
  if (!row["groups"].get<bool>()) return {torch::optim::OptimizerParamGroup(net->parameters())};
  auto rest = net->first->parameters();
  for (const auto& parameter : net->norm->parameters()) rest.push_back(parameter);
  return {torch::optim::OptimizerParamGroup(net->last->parameters()),
          torch::optim::OptimizerParamGroup(rest)};
}

std::unique_ptr<torch::optim::Optimizer> optimizer_of(FsdpNet& net, const Json& row) {
  const auto groups = groups_of(net, row);
  if (row["optimizer"] == "SGD")
    return std::make_unique<torch::optim::SGD>(groups, torch::optim::SGDOptions(0.5).momentum(0.1));
  return std::make_unique<torch::optim::AdamW>(groups, torch::optim::AdamWOptions(0.5));
}

// How many ranks go on.
struct GoOn {
  int ranks = 1;
  bool sharded = false;
};

class FsdpTraining {
 public:
  FsdpTraining(const Json& row, bool sharded, const std::shared_ptr<Communicator>& ranks)
      : seed_(row["seed"]), accelerator_(options(sharded, ranks)) {
    if (row["bf16"].get<bool>()) net_->to(at::kBFloat16);
    given_ = optimizer_of(net_, row);
    schedule_ = get_scheduler("linear", *given_, {.num_warmup_steps = 3, .num_training_steps = 12});
    std::tie(model_, optimizer_, prepared_schedule_) =
        accelerator_.prepare(net_, *given_, schedule_);
  }

  void load(const Path& folder) { accelerator_.load_state(folder); }

  std::map<std::string, at::Tensor> weights() {
    const auto whole = model_->summon_full_params({.writeback = false});
    std::map<std::string, at::Tensor> all;
    for (const auto& [name, tensor] : state_dict(view_of(*net_))) all[name] = tensor.clone();
    return all;
  }

  std::vector<double> go_on(int from = kFsdpSteps) {
    std::vector<double> losses;
    for (int step = from; step < from + kFsdpSteps; ++step) losses.push_back(step_once(step));
    return losses;
  }

  void save(const Path& folder) { accelerator_.save_state(folder); }

  std::vector<double> rates() {
    std::vector<double> all;
    for (const auto& group : given_->param_groups()) all.push_back(group.options().get_lr());
    return all;
  }

 private:
  static AcceleratorOptions options(bool sharded, const std::shared_ptr<Communicator>& ranks) {
    AcceleratorOptions options{.dataloader_config = {.split_batches = true}, .communicator = ranks};
    if (sharded) options.fsdp_plugin = FullyShardedDataParallelPlugin{};
    return options;
  }

  double step_once(int step) {
    const auto& ranks = accelerator_.communicator();
    const auto type = net_->shift.scalar_type();
    const auto all = sine_waves(kRows * kColumns, 0.1 + step + seed_, 0.37).view({kRows, kColumns});
    const std::int64_t share = kRows / ranks.size();
    const auto x = all.narrow(0, ranks.rank() * share, share);
    const auto loss = torch::mse_loss((*model_)(x.to(type)), x.sum(1, /*keepdim=*/true).to(type));
    accelerator_.backward(loss);
    optimizer_->step();
    prepared_schedule_->step();
    optimizer_->zero_grad();
    return accelerator_.reduce(loss.detach().to(at::kFloat), ReduceOp::mean).item<double>();
  }

  double seed_;
  Accelerator accelerator_;
  FsdpNet net_;
  std::unique_ptr<torch::optim::Optimizer> given_;
  std::shared_ptr<LRScheduler> schedule_;
  std::optional<Prepared<FsdpNet>> model_;
  std::optional<AcceleratedOptimizer> optimizer_;
  std::optional<AcceleratedScheduler> prepared_schedule_;
};

void expect_weights(const std::map<std::string, at::Tensor>& found, const Path& expected) {
  const auto whole = map_weights(expected);
  EXPECT_EQ(found.size(), whole.outlines.size());
  for (const auto& [name, outline] : whole.outlines) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_TRUE(torch::equal(found.at(name), whole.read(name).to(found.at(name).scalar_type())))
        << name;
  }
}

// In half precision the kernels round in other places.
void expect_goes_on(const std::string& name, const Json& row, const Path& home, GoOn on) {
  SCOPED_TRACE(name + " on " + std::to_string(on.ranks) + (on.sharded ? " sharded" : ""));
  testing::run_ranks_shared(on.ranks, [&](const std::shared_ptr<Communicator>& ranks) {
    FsdpTraining training(row, on.sharded, ranks);
    training.load(home / name);
    if (!row["bf16"].get<bool>() || !on.sharded)
      expect_weights(training.weights(), home / (name + ".safetensors"));
    const auto losses = training.go_on();
    const double tolerance = row["bf16"].get<bool>() ? 0.05 : 1e-5;
    for (std::size_t i = 0; i < losses.size(); ++i)
      EXPECT_NEAR(losses[i], row["losses"][i].get<double>(), tolerance) << "step " << i;
    const auto rates = training.rates();
    for (std::size_t i = 0; i < rates.size(); ++i)
      EXPECT_NEAR(rates[i], row["rates"][i].get<double>(), 1e-9);
  });
}

constexpr GoOn kGoOn[] = {{1, false}, {2, false}, {2, true}, {3, true}};

TEST(FsdpStates, AreGoneOnFromOnAnyNumberOfRanks) {
  const Path home = testing::reference_path("fsdp_folders");
  const Json rows = Json::parse(testing::read_reference("fsdp_folders/runs.json"));
  for (const auto& [name, row] : rows.items())
    for (const GoOn& on : kGoOn) expect_goes_on(name, row, home, on);
}

TEST(FsdpStates, GiveTheirWeightsToAModelAlone) {
  const Path home = testing::reference_path("fsdp_folders");
  for (const char* folder : {"fsdp1_sgd", "fsdp1_sgd/pytorch_model_fsdp_0", "fsdp2_ranks"}) {
    FsdpNet net;
    load_checkpoint_in_model(*net, home / folder);
    std::map<std::string, at::Tensor> found;
    for (const auto& [name, tensor] : state_dict(view_of(*net))) found[name] = tensor;
    expect_weights(found, home / (Path(folder).begin()->string() + ".safetensors"));
  }
}

// The Trainer of Transformers saves with FSDP as Accelerate does, and has other names for the rest.
TEST(FsdpStates, OfATrainerAreRead) {
  const Path home = testing::reference_path("fsdp_folders");
  const Json rows = Json::parse(testing::read_reference("fsdp_folders/runs.json"));
  for (const auto& [name, row] : rows.items()) {
    const TemporaryFolder copy;
    const Path folder = copy.path() / "checkpoint-5";
    std::filesystem::copy(home / name, folder, std::filesystem::copy_options::recursive);
    std::filesystem::rename(folder / "scheduler.bin", folder / "scheduler.pt");
    std::ofstream(folder / "trainer_state.json") << "{}";
    FsdpTraining training(row, /*sharded=*/false, single_communicator());
    training.load(folder);
    expect_weights(training.weights(), home / (name + ".safetensors"));
    EXPECT_NEAR(training.go_on().back(), row["losses"].back().get<double>(), 1e-5);
  }
}

struct DamagedFsdp {
  const char* what;
  const char* from;
  std::function<void(const Path& folder)> make;
  const char* says;
};

const DamagedFsdp kDamagedFsdp[] = {
    {"no optimizer", "fsdp1_sgd",
     [](const Path& p) { std::filesystem::remove_all(p / "optimizer_0"); },
     "it has no optimizer.bin"},
    {"no table of contents of the optimizer", "fsdp1_sgd",
     [](const Path& p) { std::filesystem::remove(p / "optimizer_0/.metadata"); },
     "optimizer_0 has no .metadata"},
    {"no table of contents of the model", "fsdp1_sgd",
     [](const Path& p) { std::filesystem::remove(p / "pytorch_model_fsdp_0/.metadata"); },
     "pytorch_model_fsdp_0 has no .metadata"},
    {"a file of the optimizer is missing", "fsdp1_sgd",
     [](const Path& p) { std::filesystem::remove(p / "optimizer_0/__0_0.distcp"); },
     "__0_0.distcp'; were all files of the checkpoint copied"},
    {"a rank of the optimizer is missing", "fsdp2_ranks",
     [](const Path& p) { std::filesystem::remove(p / "optimizer_0_rank1.bin"); },
     "a shard is missing"},
    {"a second model", "fsdp1_sgd",
     [](const Path& p) {
       std::filesystem::copy(p / "pytorch_model_fsdp_0", p / "pytorch_model_fsdp_1");
     },
     "it has pytorch_model_fsdp_1, for which there is no object"},
    {"a second optimizer", "fsdp1_sgd",
     [](const Path& p) { std::filesystem::copy(p / "optimizer_0", p / "optimizer_1"); },
     "it has optimizer_1, for which there is no object"}};

TEST(FsdpStates, ThatAreDamagedAreRefusedAndNothingChanges) {
  const Path home = testing::reference_path("fsdp_folders");
  const Json rows = Json::parse(testing::read_reference("fsdp_folders/runs.json"));
  for (const auto& [what, from, make, says] : kDamagedFsdp) {
    SCOPED_TRACE(what);
    const TemporaryFolder copy;
    std::filesystem::copy(home / from, copy.path() / "state",
                          std::filesystem::copy_options::recursive);
    make(copy.path() / "state");
    FsdpTraining training(rows[from], /*sharded=*/false, single_communicator());
    const auto before = training.weights();
    const auto message =
        testing::message_of<CheckpointError>([&] { training.load(copy.path() / "state"); });
    EXPECT_NE(message.find(says), std::string::npos) << message;
    for (const auto& [name, tensor] : training.weights())
      EXPECT_TRUE(torch::equal(tensor, before.at(name))) << name;
  }
}

TEST(FsdpStates, OfAnotherOptimizerAreRefused) {
  const Path home = testing::reference_path("fsdp_folders");
  Json rows = Json::parse(testing::read_reference("fsdp_folders/runs.json"));
  rows["fsdp1_sgd"]["optimizer"] = "AdamW";
  FsdpTraining training(rows["fsdp1_sgd"], /*sharded=*/false, single_communicator());
  const auto message =
      testing::message_of<CheckpointError>([&] { training.load(home / "fsdp1_sgd"); });
  EXPECT_NE(message.find("has the state of SGD, the optimizer is AdamW"), std::string::npos)
      << message;
}

Json row_of(const char* optimizer) {
  return {{"seed", 3}, {"bf16", false}, {"groups", true}, {"optimizer", optimizer}};
}

TEST(FsdpStates, ThatAreConvertedAreReadBack) {
  const TemporaryFolder home;
  const Path saved = home.path() / "saved", converted = home.path() / "converted";
  FsdpTraining first(row_of("AdamW"), /*sharded=*/false, single_communicator());
  (void)first.go_on(0);
  first.save(saved);
  write_state_for_python(saved, converted);
  FsdpTraining second(row_of("AdamW"), /*sharded=*/false, single_communicator());
  second.load(converted);
  const auto weights = second.weights();
  for (const auto& [name, tensor] : first.weights())
    EXPECT_TRUE(torch::equal(tensor, weights.at(name))) << name;
  EXPECT_EQ(second.go_on(), first.go_on());
  EXPECT_EQ(second.rates(), first.rates());
}

TEST(FsdpStates, AreConvertedToANewFolderOnly) {
  const TemporaryFolder home;
  FsdpTraining training(row_of("SGD"), /*sharded=*/false, single_communicator());
  (void)training.go_on(0);
  training.save(home.path() / "saved");
  EXPECT_THROW(write_state_for_python(home.path() / "saved", home.path()), UsageError);
  EXPECT_THROW(write_state_for_python(home.path() / "saved", home.path() / "saved/in"), UsageError);
  EXPECT_THROW(write_state_for_python(home.path() / "none", home.path() / "out"), CheckpointError);
  std::ofstream(home.path() / "saved/optimizer.json", std::ios::app) << " ";
  EXPECT_THROW(write_state_for_python(home.path() / "saved", home.path() / "out"), CheckpointError);
  EXPECT_FALSE(std::filesystem::exists(home.path() / "out"));
}

TEST(FsdpStates, OfAnOptimizerThatPyTorchLacksAreNotConverted) {
  const TemporaryFolder home;
  Accelerator accelerator({.communicator = single_communicator()});
  FsdpNet net;
  Lion lion(net->parameters(), LionOptions(0.1));
  const auto [model, optimizer] = accelerator.prepare(net, lion);
  accelerator.save_state(home.path() / "saved");
  const auto message = testing::kind_and_message_of(
      [&] { write_state_for_python(home.path() / "saved", home.path() / "out"); });
  EXPECT_NE(message.find("cannot convert 'optimizer'"), std::string::npos) << message;
  EXPECT_FALSE(std::filesystem::exists(home.path() / "out"));
}

std::vector<double> losses_in(const Json& row) {
  return row["losses"].get<std::vector<double>>();
}

// The way back: what is saved here, on two ranks that share a model or not, goes on in Python.
TEST(PythonFsdp, GoesOnFromConvertedCheckpoints) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  std::map<std::string, std::vector<double>> ours;
  for (const std::string optimizer : {"AdamW", "SGD"}) {
    const Json row = row_of(optimizer.c_str());
    testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
      FsdpTraining training(row, /*sharded=*/optimizer == "AdamW", ranks);
      (void)training.go_on(0);
      training.save(home.path() / ("ours_" + optimizer));
      const auto losses = training.go_on();
      if (ranks->rank() == 0) ours[optimizer] = losses;
    });
    const auto result =
        write_state_for_python(home.path() / ("ours_" + optimizer), home.path() / optimizer);
    EXPECT_EQ(result.written,
              (std::vector<std::string>{"pytorch_model_fsdp_0", "optimizer_0", "scheduler.bin"}));
  }
  const auto resumed = testing::run_program(
      {testing::reference_python(), testing::reference_path("fsdp_folders.py").string(), "resume",
       home.path().string(), "--seed", "3"},
      {.env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  const Json rows =
      Json::parse(read_file(real_file_system(), home.path() / "resumed.json", 1'000'000));
  ASSERT_EQ(rows.size(), 4U);
  for (const auto& [name, row] : rows.items()) {
    const auto theirs = losses_in(row), expected = ours.at(name.substr(6));
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(theirs[i], expected[i], 1e-5) << name << ", step " << i;
  }
}

// ACCELERATE_RANDOM_SEED chooses other weights and data.
TEST(PythonFsdp, StatesOfEveryTypeAreGoneOnFrom) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  const char* seed = std::getenv("ACCELERATE_RANDOM_SEED");
  const auto wrote = testing::run_program(
      {testing::reference_python(), testing::reference_path("fsdp_folders.py").string(), "live",
       home.path().string(), "--seed", seed == nullptr ? "1" : seed},
      {.env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}});
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  const Json rows =
      Json::parse(read_file(real_file_system(), home.path() / "runs.json", 1'000'000));
  ASSERT_GE(rows.size(), 13U);
  for (const auto& [name, row] : rows.items()) {
    for (const GoOn& on : kGoOn) expect_goes_on(name, row, home.path(), on);
    if (row["kind"] == "LOCAL_STATE_DICT") {  // Who has no model knows no shapes.
      const auto message = testing::message_of<CheckpointError>(
          [&] { merge_weights(home.path() / name, home.path() / "merged"); });
      EXPECT_NE(message.find("saved with LOCAL_STATE_DICT"), std::string::npos) << message;
      continue;
    }
    merge_weights(home.path() / name, home.path() / "merged");
    std::map<std::string, at::Tensor> merged;
    for (const auto& item : load_tensors(home.path() / "merged/model.safetensors"))
      merged[item.name] = item.tensor;
    expect_weights(merged, home.path() / (name + ".safetensors"));
  }
}

}  // namespace
}  // namespace accelerate
