// Times the loop of examples/cv with LibTorch alone and with the Accelerator. Their steps take
// turns in one process, so that other load on the machine hits both alike. Initial weights are the
// same.
#include "benchmarks/programs/cv_training.h"
#include "benchmarks/programs/measure.h"

namespace {

/// Copies the weights of `from` into `to`.
void copy_weights(Net& from, Net& to) {
  const torch::NoGradGuard no_grad;
  const auto source = from->parameters(), target = to->parameters();
  for (std::size_t i = 0; i < source.size(); ++i) target[i].copy_(source[i]);
}

/// Times `steps` steps of both, which take turns in going first.
template <typename Plain, typename Accelerated>
nlohmann::json time_in_turns(int steps, Plain plain, Accelerated accelerated) {
  std::vector<double> plain_seconds, accelerated_seconds;
  for (int i = 0; i < steps; ++i) {
    if (i % 2 == 0) plain_seconds.push_back(bench::seconds_of(plain));
    accelerated_seconds.push_back(bench::seconds_of(accelerated));
    if (i % 2 == 1) plain_seconds.push_back(bench::seconds_of(plain));
  }
  return {{"plain_seconds", plain_seconds}, {"accelerated_seconds", accelerated_seconds}};
}

void run(int warm_up_steps, int steps) {
  accelerate::Accelerator accelerator({.cpu = true});
  accelerate::set_seed(42);

  Net plain_net;
  auto plain_adam = bench::adam(plain_net);
  auto plain_loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
      bench::train_images(), torch::data::DataLoaderOptions(bench::kBatchSize));
  bench::Endless plain_batches(*plain_loader);
  auto plain_step = [&] {
    bench::train_step(plain_net, plain_adam, plain_batches, [](auto& loss) { loss.backward(); });
  };

  Net net;
  copy_weights(plain_net, net);
  auto adam = bench::adam(net);
  auto images = accelerate::make_data_loader(bench::train_images(),
                                             {.batch_size = bench::kBatchSize, .shuffle = true});
  auto [model, optimizer, loader] = accelerator.prepare(net, adam, images);
  bench::Endless batches(loader);
  auto accelerated_step = [&, &model = model, &optimizer = optimizer] {
    bench::train_step(model, optimizer, batches, [&](auto& loss) { accelerator.backward(loss); });
  };

  time_in_turns(warm_up_steps, plain_step, accelerated_step);
  bench::report(time_in_turns(steps, plain_step, accelerated_step));
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_numbers(
      argc, argv, {"WARM_UP_STEPS", "STEPS"},
      [](const std::vector<int>& numbers) { run(numbers[0], numbers[1]); });
}
