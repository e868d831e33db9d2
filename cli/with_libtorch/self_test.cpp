// The checks of `accelerate test`, on every rank of the configured set-up.
#include <accelerate/accelerate.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>

#include "accelerate/base/file_system.h"
#include "cli/with_libtorch/tasks.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;
using at::Tensor;

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kWidth = 32, kBatch = 4;
constexpr std::chrono::seconds kTimeout{60};
constexpr int kSteps = 8, kSavedStep = 4;

struct BlockImpl : torch::nn::Module {
  Tensor forward(const Tensor& x) { return x + torch::tanh(linear(x)); }
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(kWidth, kWidth));
};
TORCH_MODULE(Block);

// Says which of its modules stay whole, as the models of Transformers do.
struct NetImpl : torch::nn::Module, DivisibleModule {
  [[nodiscard]] std::vector<std::string> no_split_modules() const override { return {"Block"}; }
  Tensor forward(const Tensor& x) { return out(second(first(in(x)))); }
  torch::nn::Linear in = register_module("in", torch::nn::Linear(kWidth, kWidth));
  Block first = register_module("first", Block());
  Block second = register_module("second", Block());
  torch::nn::Linear out = register_module("out", torch::nn::Linear(kWidth, 1));
};
TORCH_MODULE(Net);

[[noreturn]] void fail(const std::string& what) {
  throw Error(what);
}

void require(bool holds, const std::string& what) {
  if (!holds) fail(what);
}

Net make_net() {
  torch::manual_seed(7);
  return {};
}

// The loss is so small that its gradients do not overflow in fp16; the rate makes up for it.
constexpr double kLossScale = 1.0 / 64, kRate = 0.01 / kLossScale;

torch::optim::SGD make_optimizer(Net& net) {
  return torch::optim::SGD(net->parameters(), torch::optim::SGDOptions(kRate).momentum(0.9));
}

using Samples = std::pair<Tensor, Tensor>;

// x: float32 {n, kWidth}; y: float32 {n, 1}.
Samples make_samples(std::int64_t n) {
  const auto places = torch::arange(n * kWidth, torch::kDouble).view({n, kWidth});
  const Tensor x = torch::sin(places * 0.37).to(torch::kFloat);
  return {x, x.slice(1, 0, 4).sum(1, true)};
}

Tensor loss_of(const Tensor& outputs, const Tensor& wanted) {
  return kLossScale * (outputs.to(torch::kFloat) - wanted).square().mean();
}

// A network in training, prepared for this rank.
struct Training {
  // `rows`: the number of rows for each rank, in batches of `batch`.
  explicit Training(Accelerator& given, std::int64_t rows = kSteps * kBatch,
                    std::int64_t batch = kBatch)
      : accelerator(given),
        net(make_net()),
        sgd(make_optimizer(net)),
        parts(accelerator.prepare(net, sgd,
                                  make_data_loader(make_samples(rows * accelerator.num_processes()),
                                                   {.batch_size = batch}))) {}

  // Repeats a step that fp16 skipped because the scale of the loss was too large.
  void step(const Tensor& x, const Tensor& y) {
    auto& [model, optimizer, batches] = parts;
    constexpr int kMostTries = 20;
    for (int tries = 0; tries < kMostTries; ++tries) {
      accelerator.backward(loss_of(model(x), y));
      // DeepSpeed's settings would clip; what is compared does not.
      accelerator.clip_grad_norm_(net->parameters(), std::numeric_limits<double>::infinity());
      optimizer.step();
      optimizer.zero_grad();
      if (!accelerator.optimizer_step_was_skipped()) return;
    }
    fail("gradients overflow in fp16, however small their factor");
  }
  void run(int from, int to) {
    int number = 0;
    for (auto& [x, y] : std::get<2>(parts)) {
      if (number >= from && number < to) step(x, y);
      ++number;
    }
  }
  [[nodiscard]] std::vector<NamedTensor> weights() const {
    return accelerator.get_state_dict(std::get<0>(parts));
  }
  [[nodiscard]] auto& model() { return std::get<0>(parts); }

  Accelerator& accelerator;
  Net net;
  torch::optim::SGD sgd;
  decltype(std::declval<Accelerator&>().prepare(
      std::declval<Net&>(), std::declval<torch::optim::SGD&>(),
      make_data_loader(std::declval<Samples>(), DataLoaderOptions{}))) parts;
};

// Returns how far `found` is from `wanted`, as a fraction of what training changed. Only on rank 0;
// returns 0 elsewhere, where there may be no weights.
double difference(const std::vector<NamedTensor>& found, const std::vector<NamedTensor>& wanted,
                  const std::vector<NamedTensor>& start) {
  double apart = 0, changed = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto as_double = [](const Tensor& t) { return t.detach().cpu().to(torch::kDouble); };
    const Tensor reference = as_double(wanted[i].tensor);
    apart += (as_double(found[i].tensor) - reference).square().sum().item<double>();
    changed += (reference - as_double(start[i].tensor)).square().sum().item<double>();
  }
  return found.empty() ? 0 : std::sqrt(apart / changed);
}

std::vector<NamedTensor> copies_of(Net& net) {
  auto weights = state_dict(view_of(*net));
  for (auto& [name, tensor] : weights) tensor = tensor.detach().clone();
  return weights;
}

std::string scientific(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return text.data();
}

// --- checks: each returns what it found, and throws what is wrong

std::string check_collectives(Accelerator& accelerator) {
  const auto device = accelerator.device();
  const int ranks = accelerator.num_processes(), rank = accelerator.process_index();
  const Tensor mine = torch::arange(3, torch::kFloat).add(rank).to(device);
  const Tensor sum = torch::arange(3, torch::kFloat) * ranks + ranks * (ranks - 1) / 2.0;
  const auto is = [](const Tensor& found, const Tensor& wanted) {
    return torch::equal(found.cpu(), wanted);
  };
  require(is(accelerator.reduce(mine.clone()), sum), "the sum of all ranks is wrong");
  const Tensor all = accelerator.gather(mine).cpu();
  for (int from = 0; from < ranks; ++from)
    require(is(all.slice(0, 3 * from, 3 * from + 3), torch::arange(3, torch::kFloat).add(from)),
            "what rank " + std::to_string(from) + " gathered is wrong");
  const int last = ranks - 1;
  require(is(accelerator.broadcast(mine.clone(), last), torch::arange(3, torch::kFloat).add(last)),
          "what the last rank broadcast is wrong");
  const Tensor ragged = torch::ones({rank + 1}, torch::TensorOptions().device(device));
  require(accelerator.pad_across_processes(ragged).size(0) == ranks,
          "padding across ranks gives a wrong length");
  const auto names = gather_object(accelerator.communicator(), "rank " + std::to_string(rank));
  for (int from = 0; from < ranks; ++from)
    require(names[static_cast<std::size_t>(from)] == "rank " + std::to_string(from),
            "objects are gathered in a wrong order");
  accelerator.wait_for_everyone();
  return "sum, gather, broadcast, padding, objects";
}

std::string check_loaders(Accelerator& accelerator) {
  constexpr std::int64_t kSamples = 53;  // No number of ranks and no batch size divides it.
  const Tensor numbers = torch::arange(kSamples);
  auto loader = accelerator.prepare(
      make_data_loader(Samples{numbers, numbers}, {.batch_size = kBatch, .shuffle = true}));
  std::vector<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 2; ++epoch) {
    Tensor seen = torch::empty({0}, torch::kLong);
    for (auto& [batch, same] : loader)
      seen = torch::cat({seen, accelerator.gather_for_metrics(batch).cpu()});
    require(torch::equal(std::get<0>(seen.sort()), numbers),
            "an epoch gives " + std::to_string(seen.numel()) + " samples instead of each of " +
                std::to_string(kSamples) + " once");
    orders.emplace_back(seen.data_ptr<std::int64_t>(), seen.data_ptr<std::int64_t>() + kSamples);
  }
  require(orders[0] != orders[1], "both epochs have the same order");
  return "each of 53 samples once, two epochs in different orders";
}

std::string check_training(Accelerator& accelerator) {
  Training training(accelerator);
  training.run(0, kSteps);
  const auto found = training.weights();
  // The same by hand: in one process, with the batches of all ranks as one batch.
  Net net = make_net();
  const auto start = copies_of(net);
  auto sgd = make_optimizer(net);
  const std::int64_t size = kBatch * accelerator.num_processes();
  const auto [x, y] = make_samples(kSteps * size);
  for (int step = 0; step < kSteps; ++step) {
    sgd.zero_grad();
    loss_of(net(x.slice(0, step * size, (step + 1) * size)),
            y.slice(0, step * size, (step + 1) * size))
        .backward();
    sgd.step();
  }
  const double apart = difference(found, copies_of(net), start);
  const double allowed = accelerator.mixed_precision() == MixedPrecision::no ? 1e-4 : 0.1;
  require(apart <= allowed,
          "weights are " + scientific(apart) +
              " of their change away from a training in one process; allowed is " +
              scientific(allowed));
  return std::to_string(kSteps) + " steps; " + scientific(apart) + " from one process";
}

std::string check_accumulation(Accelerator& accelerator) {
  const auto train = [&](int pieces) {
    Training training(accelerator, kBatch, kBatch / pieces);
    accelerator.set_gradient_accumulation_steps(pieces);
    auto& [model, optimizer, batches] = training.parts;
    for (auto& [x, y] : batches) {
      const auto window = accelerator.accumulate(model);
      accelerator.backward(loss_of(model(x), y));
      optimizer.step();
      optimizer.zero_grad();
    }
    accelerator.set_gradient_accumulation_steps(1);
    return training.weights();
  };
  const auto whole = train(1), pieces = train(2);
  Net net = make_net();
  const double apart = difference(pieces, whole, copies_of(net));
  const double allowed = accelerator.mixed_precision() == MixedPrecision::no ? 1e-4 : 0.1;
  require(apart <= allowed, "two halves of a batch move the weights " + scientific(apart) +
                                " away from the whole batch; allowed is " + scientific(allowed));
  return "two halves as one batch; " + scientific(apart) + " apart";
}

bool same_files(const fs::path& one, const fs::path& other) {
  constexpr std::size_t kMost = std::size_t{1} << 26;
  return read_file(real_file_system(), one, kMost) == read_file(real_file_system(), other, kMost);
}

std::string check_checkpoint(Accelerator& accelerator, const fs::path& folder) {
  accelerator.free_memory();
  Training training(accelerator);
  training.run(0, kSavedStep);
  accelerator.save_state(folder / "checkpoint");
  training.run(kSavedStep, kSteps);
  accelerator.save_model(training.model(), folder / "uninterrupted");
  accelerator.load_state(folder / "checkpoint");
  training.run(kSavedStep, kSteps);
  accelerator.save_model(training.model(), folder / "loaded");
  accelerator.wait_for_everyone();
  require(
      same_files(folder / "uninterrupted/model.safetensors", folder / "loaded/model.safetensors"),
      "a training that continues from its checkpoint ends elsewhere");
  return "loaded, and trained on to the same bits";
}

std::string check_restart(Accelerator& accelerator, const fs::path& folder) {
  Training training(accelerator);
  accelerator.load_state(folder / "checkpoint");
  training.run(kSavedStep, kSteps);
  accelerator.save_model(training.model(), folder / "restarted");
  accelerator.wait_for_everyone();
  require(same_files(folder / "uninterrupted/model.safetensors",
                     folder / "restarted/model.safetensors"),
          "a training that new processes take up ends elsewhere");
  return "new processes train on to the same bits";
}

// Appends a line to results.tsv.
void write_result(const fs::path& file, bool is_good, const char* name, std::string found,
                  Clock::time_point begin) {
  for (char& c : found)
    if (c == '\t' || c == '\n') c = ' ';
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  std::ofstream out(file, std::ios::app);
  out << (std::string(is_good ? "ok" : "failed") + "\t" + name + "\t" + found + "\t" +
          std::to_string(took.count()) + "\n")
      << std::flush;
  if (!out) throw Error("cannot write " + file.string() + ": is its disk full?");
}

// Runs checks and writes down their results. A check that fails on one rank has failed.
class Report {
 public:
  Report(Accelerator& accelerator, fs::path file)
      : accelerator_(accelerator), file_(std::move(file)) {}

  template <typename Check>
  void run(const char* name, Check check) {
    const auto begin = Clock::now();
    std::string found, fault;
    try {
      found = check();
    } catch (const std::exception& error) {
      fault = describe(error);
    }
    const auto faults = gather_object(accelerator_.communicator(), fault);
    for (std::size_t rank = 0; rank < faults.size() && !has_failed_; ++rank) {
      if (faults[rank].empty()) continue;
      has_failed_ = true;
      found = (faults.size() > 1 ? "rank " + std::to_string(rank) + ": " : "") + faults[rank];
    }
    if (accelerator_.is_main_process())
      write_result(file_, !has_failed_, name, std::move(found), begin);
  }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

 private:
  Accelerator& accelerator_;
  fs::path file_;
  bool has_failed_ = false;
};

// The layers that a configuration file names belong to the user's model, not to this one.
void name_own_layers() {
  ::unsetenv("FSDP_TRANSFORMER_CLS_TO_WRAP");
  ::unsetenv("ACCELERATE_DEEPSPEED_MOE_LAYER_CLS_NAMES");
  ::unsetenv("FSDP_IGNORED_MODULES");
}

}  // namespace

int run_self_test(const fs::path& folder, bool is_second) {
  name_own_layers();
  const fs::path results = folder / "results.tsv";
  const auto begin = Clock::now();
  std::optional<Accelerator> started;
  try {
    // A short timeout shows soon that something hangs.
    started.emplace(AcceleratorOptions{.init_process_group = {.timeout = kTimeout}});
  } catch (const std::exception& error) {
    write_result(results, false, "start", error.what(), begin);
    return 1;
  }
  Accelerator& accelerator = *started;
  if (accelerator.is_main_process() && !is_second) write_result(results, true, "start", "", begin);
  accelerator.set_gradient_accumulation_steps(1);  // Checks set the batches of a step themselves.
  Report report(accelerator, results);
  const auto run = [&](const char* name, auto check) {
    if (!report.has_failed()) report.run(name, check);
  };
  if (is_second) {
    run("restart", [&] { return check_restart(accelerator, folder); });
  } else {
    run("collectives", [&] { return check_collectives(accelerator); });
    run("data loaders", [&] { return check_loaders(accelerator); });
    run("training", [&] { return check_training(accelerator); });
    run("accumulation", [&] { return check_accumulation(accelerator); });
    run("checkpoint", [&] { return check_checkpoint(accelerator, folder); });
  }
  accelerator.end_training();
  return report.has_failed() ? 1 : 0;
}

}  // namespace accelerate::cli
