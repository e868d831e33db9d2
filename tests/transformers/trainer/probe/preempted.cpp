// A training that tests/transformers/trainer/preemption_test.py asks to end.
//
// usage: preempted_probe trainer OUTPUT_DIR [arguments of trainings…]
//        preempted_probe loop OUTPUT_DIR
//
// Both go on from what they find in OUTPUT_DIR, make 80 steps in all and write OUTPUT_DIR/weights.
// With PREEMPTED_MARKS each rank makes the file <rank> in that folder behind the third step of this
// run. All steps behind it are slow, so that a signal comes before the end.
#include <ATen/ops/cat.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "accelerate/accelerate.h"
#include "accelerate/base/run_main.h"
#include "accelerate/transformers/trainer/arguments/parse_args.h"
#include "tests/transformers/trainer/small_training.h"

namespace {

using namespace accelerate;
using Path = std::filesystem::path;

constexpr std::int64_t kSteps = 80;

// Is called behind each step.
void await_signal(int rank) {
  static int steps = 0;
  const char* marks = std::getenv("PREEMPTED_MARKS");
  if (marks == nullptr || ++steps < 3) return;
  if (steps == 3) std::ofstream(Path(marks) / std::to_string(rank));
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
}

struct Slow final : TrainerCallback {
  explicit Slow(int rank) : rank_(rank) {}
  void on_step_end(TrainerEvent&) override { await_signal(rank_); }
  int rank_;
};

void write_weights(const Path& folder, const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> flat;
  for (const auto& parameter : parameters) flat.push_back(parameter.detach().flatten());
  const at::Tensor all = at::cat(flat);
  std::ofstream(folder / "weights", std::ios::binary)
      .write(static_cast<const char*>(all.const_data_ptr()),
             static_cast<std::streamsize>(all.nbytes()));
}

void train(TrainingArguments args) {
  const Path folder = args.output_dir;
  const TrainingArguments quiet = testing::quiet_arguments(folder);
  args.learning_rate = quiet.learning_rate;
  args.per_device_train_batch_size = 4;
  args.max_steps = kSteps;
  args.logging_steps = 100;
  args.disable_tqdm = args.use_cpu = true;
  args.resume_from_checkpoint = "last";
  Trainer trainer(testing::small_training(std::move(args)));
  trainer.add_callback(std::make_shared<Slow>(trainer.accelerator().process_index()));
  trainer.train();
  if (trainer.is_world_process_zero()) write_weights(folder, testing::weights_of(trainer.model()));
  trainer.end();
}

int train_by_hand(const Path& folder) {
  Accelerator accelerator({.cpu = true});
  at::manual_seed(3);
  torch::nn::Sequential net(torch::nn::Linear(2, 8), torch::nn::Dropout(0.5),
                            torch::nn::Linear(8, 1));
  torch::optim::Adam adam(net->parameters(), 0.05);
  const at::Tensor rows = at::arange(40, at::kFloat).view({20, 2}) / 40;
  auto [model, optimizer, loader] =
      accelerator.prepare(net, adam, make_data_loader(rows, {.batch_size = 1, .shuffle = true}));
  accelerator.save_on_signal(folder / "state");
  if (std::filesystem::exists(folder / "state")) accelerator.load_state(folder / "state");
  while (loader.epoch() < kSteps / 10) {
    for (auto& batch : loader) {
      accelerator.backward(model(batch).pow(2).mean());
      optimizer.step();
      optimizer.zero_grad();
      await_signal(accelerator.process_index());
      if (accelerator.should_stop()) return accelerator.stop_code();
    }
  }
  if (accelerator.is_main_process()) write_weights(folder, net->parameters());
  accelerator.end_training();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_main([&]() -> int {
    if (argc < 3) throw std::runtime_error("usage: preempted_probe trainer|loop OUTPUT_DIR");
    const std::string output_dir = argv[2];
    if (std::string(argv[1]) == "loop") return train_by_hand(output_dir);
    std::vector<char*> words{argv[0]};
    words.insert(words.end(), argv + 3, argv + argc);
    auto args = parse_args<TrainingArguments>(static_cast<int>(words.size()), words.data());
    args.output_dir = output_dir;
    train(args);
    return 0;
  });
}
