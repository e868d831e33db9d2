// Trainings of Python Accelerate that go on here: tests/reference/python_states.py trains, saves
// and goes on; so does the same training here from what was saved.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "accelerate/accelerate.h"
#include "accelerate/checkpoint/python/python_state.h"
#include "accelerate/optim/algorithms/adafactor.h"
#include "accelerate/optim/algorithms/lion.h"
#include "accelerate/optim/algorithms/muon.h"
#include "accelerate/optim/algorithms/schedule_free_adamw.h"
#include "accelerate/tensor/seed.h"
#include "accelerate/tensor/weights.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Path = std::filesystem::path;
using testing::TemporaryFolder;

constexpr int kSteps = 5, kBatch = 6, kInputs = 4, kHidden = 8;

at::Tensor waves(std::int64_t count, double start, double pace) {
  return torch::sin(torch::arange(count, at::kDouble) * pace + start).to(at::kFloat);
}

struct PythonNetImpl : torch::nn::Module {
  explicit PythonNetImpl(double dropout) {
    first = register_module(
        "first", torch::nn::Linear(torch::nn::LinearOptions(kInputs, kHidden).bias(false)));
    norm = register_module("norm", torch::nn::BatchNorm1d(kHidden));
    drop = register_module("drop", torch::nn::Dropout(dropout));
    last = register_module("last", torch::nn::Linear(kHidden, 1));
  }
  at::Tensor forward(const at::Tensor& x) { return last(drop(torch::tanh(norm(first(x))))); }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Dropout drop{nullptr};
};
TORCH_MODULE(PythonNet);

std::pair<at::Tensor, at::Tensor> batch(int step) {
  const auto x = waves(kBatch * kInputs, 0.1 + step, 0.37).view({kBatch, kInputs});
  return {x, x.sum(1, /*keepdim=*/true)};
}

// The optimizers and schedules of the script, with other numbers where a checkpoint has its own.
std::shared_ptr<torch::optim::Optimizer> make_optimizer(
    const std::string& name, const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  using namespace torch::optim;
  if (name == "AdamW") return std::make_shared<AdamW>(groups, AdamWOptions(0.5));
  if (name == "AdamW_amsgrad") return std::make_shared<AdamW>(groups, AdamWOptions(0.5));
  if (name == "Adam") return std::make_shared<Adam>(groups, AdamOptions(0.5));
  if (name.starts_with("SGD")) return std::make_shared<SGD>(groups, SGDOptions(0.5).momentum(0.1));
  if (name == "Adagrad") return std::make_shared<Adagrad>(groups, AdagradOptions(0.5));
  if (name.starts_with("RMSprop")) return std::make_shared<RMSprop>(groups, RMSpropOptions(0.5));
  if (name.starts_with("Adafactor"))
    return std::make_shared<Adafactor>(
        groups, AdafactorOptions(0.5).relative_step(false).warmup_init(false));
  if (name == "Lion") return std::make_shared<Lion>(groups, LionOptions(0.5));
  if (name == "Muon") return std::make_shared<Muon>(groups, MuonOptions(0.5));
  if (name == "ScheduleFreeAdamW")
    return std::make_shared<ScheduleFreeAdamW>(groups, ScheduleFreeAdamWOptions(0.5));
  return std::make_shared<LBFGS>(groups, LBFGSOptions(0.5));
}

std::shared_ptr<LRScheduler> make_schedule(const std::string& name, const std::string& optimizer,
                                           torch::optim::Optimizer& of) {
  if (name == "linear" || name == "cosine")
    return get_scheduler(name, of,
                         {.num_warmup_steps = name == "linear" ? 3 : 2, .num_training_steps = 12});
  if (name == "StepLR") return std::make_shared<StepLR>(of, 9);
  if (name == "MultiStepLR") return std::make_shared<MultiStepLR>(of, std::vector<std::int64_t>{1});
  if (name == "CosineAnnealingLR") return std::make_shared<CosineAnnealingLR>(of, 5);
  if (name == "ExponentialLR") return std::make_shared<ExponentialLR>(of, 0.1);
  if (name == "OneCycleLR") {
    const bool cycles =
        optimizer.starts_with("Adam") || optimizer == "SGD_nesterov" || optimizer == "RMSprop";
    return std::make_shared<OneCycleLR>(
        of, OneCycleLROptions{.max_lr = 0.05, .total_steps = 12, .cycle_momentum = cycles});
  }
  if (name == "ReduceLROnPlateau") return std::make_shared<ReduceLROnPlateau>(of);
  const SequentialLR::Schedulers parts = {
      std::make_shared<LinearLR>(of, LinearLROptions{.start_factor = 0.1}),
      std::make_shared<ExponentialLR>(of, 0.1)};
  return std::make_shared<SequentialLR>(of, parts, std::vector<std::int64_t>{4});
}

struct Notes {
  StateDict state;
  [[nodiscard]] StateDict state_dict() const { return state; }
  void load_state_dict(const StateDict& loaded) { state = loaded; }
};

std::vector<torch::optim::OptimizerParamGroup> groups_of(PythonNet& net, bool two,
                                                         bool only_matrices) {
  if (only_matrices) {
    auto leaves = net->parameters();
    std::erase_if(leaves, [](const at::Tensor& leaf) { return leaf.dim() != 2; });
    return {torch::optim::OptimizerParamGroup(leaves)};
  }
  if (!two) return {torch::optim::OptimizerParamGroup(net->parameters())};
  auto rest = net->first->parameters();
  for (const auto& parameter : net->norm->parameters()) rest.push_back(parameter);
  return {torch::optim::OptimizerParamGroup(net->last->parameters()),
          torch::optim::OptimizerParamGroup(rest)};
}

// A training here, made as the script's was.
struct PythonTraining {
  explicit PythonTraining(const Json& row)
      : row(row),
        name(row["optimizer"]),
        accelerator(
            {.gradient_accumulation_steps = row.value("accumulation", 1),
             .mixed_precision = row.contains("scaler") ? MixedPrecision::fp16 : MixedPrecision::no,
             .communicator = single_communicator()}),
        net(name == "LBFGS" ? 0.0 : 0.5),
        optimizer(make_optimizer(name, groups_of(net, row.contains("groups"), name == "Muon"))) {
    model.emplace(accelerator.prepare(net));
    prepared.emplace(accelerator.prepare(*optimizer));
    if (row["schedule"] == "none") return;
    given = make_schedule(row["schedule"], name, *optimizer);
    schedule.emplace(accelerator.prepare(given));
  }

  at::Tensor loss(int step) {
    const auto [x, target] = batch(step);
    return torch::mse_loss((*model)(x).to(at::kFloat), target);
  }
  double plain_step(int step) {
    const auto value = loss(step);
    accelerator.backward(value);
    prepared->step();
    prepared->zero_grad();
    return value.item<double>();
  }
  double step_with_closure(int step) {
    std::vector<double> losses;
    prepared->step([&] {
      prepared->zero_grad();
      const auto value = loss(step);
      accelerator.backward(value);
      losses.push_back(value.item<double>());
      return value;
    });
    return losses.front();
  }
  std::vector<double> go_on() {
    std::vector<double> losses;
    for (int step = kSteps; step < 2 * kSteps; ++step) {
      const auto window = accelerator.accumulate(*model);
      losses.push_back(name == "LBFGS" ? step_with_closure(step) : plain_step(step));
      if (!schedule) continue;
      if (row["schedule"] == "ReduceLROnPlateau") {
        schedule->step(losses.back());
      } else {
        schedule->step();
      }
    }
    return losses;
  }
  std::vector<double> rates() {
    std::vector<double> all;
    for (const auto& group : optimizer->param_groups()) all.push_back(group.options().get_lr());
    return all;
  }

  const Json& row;
  std::string name;
  Accelerator accelerator;
  PythonNet net;
  std::shared_ptr<torch::optim::Optimizer> optimizer;
  std::shared_ptr<LRScheduler> given;
  std::optional<Prepared<PythonNet>> model;
  std::optional<AcceleratedOptimizer> prepared;
  std::optional<AcceleratedScheduler> schedule;
};

// Muon, and RMSprop and LBFGS of LibTorch, do what PyTorch's do, operation for operation: bitwise. The others
// run fused kernels here, which round in other places (1e-7 is seen); fp16 may round that up.
double tolerance_of(const Json& row) {
  const std::string optimizer = row["optimizer"];
  if (row.contains("scaler")) return 1e-4;
  const bool is_equal =
      optimizer.starts_with("RMSprop") || optimizer == "LBFGS" || optimizer == "Muon";
  return is_equal ? 0 : 1e-6;
}

void expect_near(const std::vector<double>& ours, const std::vector<double>& theirs,
                 double tolerance, const std::string& what) {
  ASSERT_EQ(ours.size(), theirs.size()) << what;
  for (std::size_t i = 0; i < ours.size(); ++i)
    EXPECT_NEAR(ours[i], theirs[i], tolerance) << what << " at " << i;
}

std::vector<double> numbers(const at::Tensor& tensor) {
  const auto wide = tensor.detach().to(at::kDouble).contiguous();
  return {wide.data_ptr<double>(), wide.data_ptr<double>() + wide.numel()};
}

// What the script's registered object has, in the folder checkpoint_7.
void expect_notes(const Notes& notes, const Accelerator& accelerator) {
  const StateDict& state = notes.state;
  EXPECT_EQ(state.at("best").to<double>(), 1.5);
  EXPECT_EQ(state.at("names").list().at(1).to<std::string>(), "b");
  EXPECT_TRUE(state.at("seen").at("3").to<bool>());
  EXPECT_TRUE(state.at("seen").at("4").is_null());
  EXPECT_TRUE(torch::equal(state.at("mean").to<at::Tensor>().add_(0), torch::arange(3.0)));
  EXPECT_EQ(state.at("pair").list().size(), 2U);
  EXPECT_EQ(accelerator.save_iteration(), 8);
}

void expect_goes_on(const Json& row, const Path& folder) {
  const std::string name = row["name"];
  PythonTraining here(row);
  Notes notes;
  if (row.contains("notes")) here.accelerator.register_for_checkpointing(notes);
  here.accelerator.load_state(folder / name);
  const double tolerance = tolerance_of(row);
  expect_near(here.go_on(), row["losses"], 10 * tolerance, name + " losses");
  // Rates are computed as the original does.
  const std::vector<double> rates = row["rates"];
  EXPECT_EQ(here.rates(), rates) << name;
  for (const auto& [key, tensor] : state_dict(view_of(*here.net)))
    expect_near(numbers(tensor), row["weights"][key], tolerance, name + " " + key);
  EXPECT_EQ(numbers(torch::rand(3)), row["random"].get<std::vector<double>>()) << name;
  if (row.contains("notes")) expect_notes(notes, here.accelerator);
  if (!row.contains("scale")) return;
  EXPECT_EQ(here.accelerator.scaler()->get_scale(), row["scale"].get<double>()) << name;
}

void expect_random_states_of_each_rank(const Path& folder) {
  const Json drawn = Json::parse(read_file(real_file_system(), folder / "random.json", 10'000));
  std::filesystem::remove(folder / "random.json");
  const auto saved = list_python_state(real_file_system(), folder);
  ASSERT_EQ(saved.manifest.num_processes, 2);
  for (int rank = 0; rank < 2; ++rank) {
    const StatePart part{"random_states_" + std::to_string(rank), true, rng_state, check_rng_state};
    read_python_state(real_file_system(), saved, {.models = {}, .parts = {part}}).load_the_rest();
    EXPECT_EQ(numbers(torch::rand(3)), drawn[rank].get<std::vector<double>>()) << rank;
  }
}

testing::RunResult script(const std::string& mode, const Path& folder) {
  return testing::run_program(
      {testing::reference_python(), testing::reference_path("python_states.py").string(), mode,
       folder.string()},
      {.env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}});
}

// What one process saved is the same on two ranks, one of which it does not know.
void expect_two_ranks_load(const Path& folder) {
  std::map<std::string, at::Tensor> saved;
  const auto weights = map_weights(folder);
  for (const auto& item : weights.outlines) saved.emplace(item.name, weights.read(item.name));
  testing::run_ranks_shared(2, [&](const std::shared_ptr<Communicator>& ranks) {
    Accelerator accelerator({.communicator = ranks});
    PythonNet net(0.5);
    torch::optim::AdamW adamw(net->parameters(), torch::optim::AdamWOptions(0.5));
    auto linear = make_schedule("linear", "AdamW", adamw);
    const auto [model, optimizer, schedule] = accelerator.prepare(net, adamw, linear);
    accelerator.load_state(folder);
    for (const auto& [name, tensor] : state_dict(view_of(*net)))
      EXPECT_TRUE(torch::equal(tensor, saved.at(name))) << name;
    EXPECT_EQ(adamw.state().size(), 5U);
    EXPECT_EQ(adamw.param_groups()[0].options().get_lr(), schedule.get_last_lr()[0]);
  });
}

TEST(PythonState, EveryOptimizerAndScheduleGoesOnWhereItWas) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  const auto wrote = script("runs", home.path());
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  const Json rows =
      Json::parse(read_file(real_file_system(), home.path() / "runs.json", 10'000'000));
  ASSERT_GE(rows.size(), 35U);  // More where Python has Lion and ScheduleFreeAdamW.
  for (const Json& row : rows) expect_goes_on(row, home.path());
  expect_two_ranks_load(home.path() / "AdamW-linear");
  expect_random_states_of_each_rank(home.path() / "ranks");
}

TEST(PythonState, SaysThatLoadersBeginTheirEpochAnew) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  std::filesystem::copy_file(testing::reference_path("torch_archive/random_states.pt"),
                             home.path() / "random_states_0.pkl");
  testing::LogCapture log;
  Accelerator accelerator({.communicator = single_communicator()});
  auto batches = make_data_loader(torch::arange(4), {.batch_size = 2});
  auto loader = accelerator.prepare(batches);
  // That file's random state is cut short, which comes after what is to be seen here.
  EXPECT_THROW(accelerator.load_state(home.path()), CheckpointError);
  ASSERT_FALSE(log.lines().empty());
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "begin their epoch again", log.lines().front());
}

struct Refused {
  const char* folder;
  const char* says;
};

TEST(PythonState, WhatDoesNotFitIsRefusedByItsNameAndNothingChanges) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  const TemporaryFolder home;
  const auto wrote = script("refused", home.path());
  ASSERT_EQ(wrote.exit_code, 0) << wrote.err;
  const Refused cases[] = {
      {"another_class", "has the state of SGD, the optimizer is AdamW"},
      {"no_class", "an optimizer with the options lr, lambd, params, the optimizer is AdamW"},
      {"adam", "has the state of Adam, the optimizer is AdamW"},
      {"maximize", "parameter group 0 has the option 'maximize', True, which"},
      {"an_option_more", "the option 'lookahead', the number 3, which"},
      {"an_option_less", "parameter group 0 has no 'eps'"},
      {"an_entry_more", "state of 'first.weight' has the entry 'exp_avg_diff', which AdamW"},
      {"an_entry_less", "state of 'first.weight' has no 'exp_avg'"},
      {"an_entry_none", "state of 'first.weight' has no 'exp_avg'"},
      {"another_shape", "'exp_avg' of parameter 'first.weight' is a tensor \\[4, 8\\]"},
      {"half_a_step", "step' is 1.5.*, no count of steps"},
      {"a_text", "exp_avg' is the text 'text', no tensor"},
      {"two_groups", "the file has 2 parameter groups, the optimizer 1"},
      {"a_parameter_less", "group 0 has 4 parameters; the optimizer's group has 5"},
      {"a_parameter_by_name",
       "parameter group 0 has no parameter .first.weight.. Its parameters: a, b"},
      {"no_groups", "the file has no 'param_groups'"},
      {"no_optimizer", "the file has no 'state'"},
      {"a_class_of_python", "asks for 'pathlib.*PurePosixPath'"},
      {"scheduler_list", "the state of a schedule is a list of 1 item, not a dict"},
      {"scheduler_lacks", "last_epoch"},
      {"scheduler_groups", "base_lrs"},
      {"scheduler_bytes", "'other' is bytes of 1 item"},
      {"random_short", "cpu|5056|generator"},
      {"random_none", "has no 'torch_manual_seed'"},
      {"custom_class", "custom_checkpoint_0.pkl.*asks for 'pathlib.*PurePosixPath'"},
      {"custom_set", "'custom_checkpoint.other' is a set of 2 items"},
      {"custom_key", "a key of 'custom_checkpoint.other' is the number 1.5"},
      {"without_optimizer.bin", "it has no optimizer.bin"},
      {"without_scheduler.bin", "it has no scheduler.bin"},
      {"without_custom_checkpoint_0.pkl", "it has no custom_checkpoint_0.pkl"},
      {"without_model.safetensors", "it has no model.safetensors"},
      {"with_optimizer_1.bin", "optimizer_1.bin, for which there is no object"},
      {"with_scheduler_1.bin", "scheduler_1.bin, for which there is no object"},
      {"with_custom_checkpoint_1.pkl", "custom_checkpoint_1.pkl, for which there is no object"},
      {"with_model_1.safetensors", "model_1.safetensors, for which there is no object"},
      {"fsdp", "pytorch_model_fsdp.bin., a file of torch.save: it is not a zip archive"},
      {"cut", "optimizer.bin.*cut short"},
  };
  const Json row = {{"optimizer", "AdamW"}, {"schedule", "linear"}};
  for (const auto& [folder, says] : cases) {
    PythonTraining here(row);
    Notes notes;
    here.accelerator.register_for_checkpointing(notes);
    const auto before = here.net->last->weight.detach().clone();
    try {
      here.accelerator.load_state(home.path() / folder);
      ADD_FAILURE() << folder << " was taken";
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(std::regex_search(describe(error), std::regex(says)))
          << folder << ": " << describe(error);
    }
    const bool late = std::string(folder) == "another_shape" ||
                      std::string(folder).starts_with("scheduler_") ||
                      std::string(folder) == "random_short";
    EXPECT_TRUE(late || torch::equal(here.net->last->weight, before)) << folder;
  }
  EXPECT_EQ(real_file_system().list(home.path()).size(), std::size(cases) + 1)
      << "and the good one";
}

}  // namespace
}  // namespace accelerate
