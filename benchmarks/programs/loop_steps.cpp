// Times a whole training step (two micro-batches of 64, clipping, a linear schedule, AdamW) with
// LibTorch alone and with the Accelerator. The steps take turns in one process, so that other load
// on the machine hits both alike. Network, weights and images are the same. The plain loop indexes
// tensors by hand, which is as fast as LibTorch gets.
#include <tuple>

#include "benchmarks/programs/cv_training.h"
#include "benchmarks/programs/measure.h"

namespace {

constexpr int kMicroBatches = 2;
constexpr std::int64_t kBatchSize = 64;
constexpr double kRate = 1e-3, kMaxNorm = 1.0;

torch::optim::AdamW adamw(Net& net) {
  return torch::optim::AdamW(net->parameters(), torch::optim::AdamWOptions(kRate));
}

/// Images uint8 {60000, 1, 28, 28} and labels int64 {60000}.
std::pair<torch::Tensor, torch::Tensor> all_images() {
  auto dataset = bench::train_images();
  std::vector<std::size_t> everything(*dataset.size());
  std::iota(everything.begin(), everything.end(), 0);
  const auto batch = dataset.get_batch(everything);
  return {batch.data, batch.target};
}

/// The plain loop: a random permutation and index_select; everything else by hand.
class PlainLoop {
 public:
  PlainLoop(Net net, std::pair<torch::Tensor, torch::Tensor> images, int total_steps)
      : net_(std::move(net)),
        adamw_(adamw(net_)),
        images_(std::move(images)),
        total_(total_steps) {}

  void step() {
    for (int i = 0; i < kMicroBatches; ++i) {
      const auto chosen = next_indices();
      const auto scores = net_(images_.first.index_select(0, chosen));
      const auto loss = torch::cross_entropy_loss(scores, images_.second.index_select(0, chosen));
      (loss / kMicroBatches).backward();
    }
    torch::nn::utils::clip_grad_norm_(net_->parameters(), kMaxNorm);
    adamw_.step();
    const double rate = kRate * std::max(0.0, 1.0 - static_cast<double>(++steps_) / total_);
    for (auto& group : adamw_.param_groups()) group.options().set_lr(rate);
    adamw_.zero_grad();
  }

 private:
  torch::Tensor next_indices() {
    if (!order_.defined() || next_ + kBatchSize > order_.numel()) {
      order_ = torch::randperm(images_.first.size(0));
      next_ = 0;
    }
    next_ += kBatchSize;
    return order_.narrow(0, next_ - kBatchSize, kBatchSize);
  }

  Net net_;
  torch::optim::AdamW adamw_;
  std::pair<torch::Tensor, torch::Tensor> images_;
  torch::Tensor order_;
  std::int64_t next_ = 0;
  int steps_ = 0, total_;
};

void run(int warm_up_steps, int steps) {
  accelerate::Accelerator accelerator({.gradient_accumulation_steps = kMicroBatches, .cpu = true});
  accelerate::set_seed(42);
  Net plain_net, net;
  bench::copy_weights(plain_net, net);
  const auto images = all_images();
  PlainLoop plain(plain_net, images, warm_up_steps + steps);

  auto optimizer_of_net = adamw(net);
  auto batches_of_64 = accelerate::make_data_loader(
      images, {.batch_size = kBatchSize, .shuffle = true, .drop_last = true});
  auto linear = accelerate::get_scheduler(
      "linear", optimizer_of_net,
      {.num_warmup_steps = 0, .num_training_steps = warm_up_steps + steps});
  auto [model, optimizer, loader, scheduler] =
      accelerator.prepare(net, optimizer_of_net, batches_of_64, linear);
  bench::Endless batches(loader);
  auto accelerated = [&, &model = model, &optimizer = optimizer, &scheduler = scheduler] {
    do {
      const auto window = accelerator.accumulate(model);
      auto& [data, target] = batches.next();
      accelerator.backward(torch::cross_entropy_loss(model(data), target));
      if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), kMaxNorm);
      optimizer.step();
      scheduler.step();
      optimizer.zero_grad();
    } while (!accelerator.sync_gradients());
  };

  std::vector<double> plain_seconds, accelerated_seconds;
  for (int i = 0; i < warm_up_steps + steps; ++i) {
    double first = 0, second = 0;
    if (i % 2 == 0) first = bench::seconds_of([&] { plain.step(); });
    second = bench::seconds_of(accelerated);
    if (i % 2 == 1) first = bench::seconds_of([&] { plain.step(); });
    if (i < warm_up_steps) continue;
    plain_seconds.push_back(first);
    accelerated_seconds.push_back(second);
  }
  bench::report({{"plain_seconds", plain_seconds}, {"accelerated_seconds", accelerated_seconds}});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_numbers(
      argc, argv, {"WARM_UP_STEPS", "STEPS"},
      [](const std::vector<int>& numbers) { run(numbers[0], numbers[1]); });
}
