// Times a loop with LibTorch alone and with the Accelerator. Their steps take turns in one process,
// so that other load on the machine hits both alike. Initial weights are the same.
//
// usage: bench_interleaved_steps images|transformer WARM_UP_STEPS STEPS
//
// images: the loop of examples/cv. transformer: torch::nn::TransformerEncoder in fp32, and the loss
// of each step.
#include "benchmarks/programs/cv_training.h"
#include "benchmarks/programs/measure.h"

namespace {

struct Turns {
  int warm_up_steps, steps;
};

/// Times the steps of both, which take turns in going first.
template <typename Plain, typename Accelerated>
nlohmann::json time_in_turns(const Turns& turns, Plain plain, Accelerated accelerated) {
  std::vector<double> plain_seconds, accelerated_seconds;
  for (int i = 0; i < turns.warm_up_steps + turns.steps; ++i) {
    double first = 0, second = 0;
    if (i % 2 == 0) first = bench::seconds_of(plain);
    second = bench::seconds_of(accelerated);
    if (i % 2 == 1) first = bench::seconds_of(plain);
    if (i < turns.warm_up_steps) continue;
    plain_seconds.push_back(first);
    accelerated_seconds.push_back(second);
  }
  return {{"plain_seconds", plain_seconds}, {"accelerated_seconds", accelerated_seconds}};
}

void train_on_images(const Turns& turns) {
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
  bench::copy_weights(plain_net, net);
  auto adam = bench::adam(net);
  auto images = accelerate::make_data_loader(bench::train_images(),
                                             {.batch_size = bench::kBatchSize, .shuffle = true});
  auto [model, optimizer, loader] = accelerator.prepare(net, adam, images);
  bench::Endless batches(loader);
  auto accelerated_step = [&, &model = model, &optimizer = optimizer] {
    bench::train_step(model, optimizer, batches, [&](auto& loss) { accelerator.backward(loss); });
  };
  bench::report(time_in_turns(turns, plain_step, accelerated_step));
}

torch::nn::TransformerEncoder transformer(std::int64_t width) {
  constexpr std::int64_t kHeads = 8, kLayers = 6;
  const auto layer = torch::nn::TransformerEncoderLayer(
      torch::nn::TransformerEncoderLayerOptions(width, kHeads).dropout(0.0));
  return torch::nn::TransformerEncoder(torch::nn::TransformerEncoderOptions(layer, kLayers));
}

torch::optim::AdamW adamw(const torch::nn::TransformerEncoder& net) {
  return torch::optim::AdamW(net->parameters(), torch::optim::AdamWOptions(1e-4));
}

void train_transformer(const Turns& turns) {
  constexpr std::int64_t kWidth = 512, kTokens = 64, kBatchSize = 4;
  accelerate::Accelerator accelerator({.cpu = true});
  accelerate::set_seed(42);
  auto plain_net = transformer(kWidth), net = transformer(kWidth);
  bench::copy_weights(plain_net, net);
  auto plain_adamw = adamw(plain_net), adamw_of_net = adamw(net);
  const auto tokens = torch::randn({kTokens, kBatchSize, kWidth});
  const auto targets = torch::randn({kTokens, kBatchSize, kWidth});

  std::vector<double> plain_losses, accelerated_losses;
  const auto plain_step = [&] {
    const auto loss = torch::mse_loss(plain_net(tokens), targets);
    loss.backward();
    plain_adamw.step();
    plain_adamw.zero_grad();
    plain_losses.push_back(loss.item<double>());
  };
  auto [model, optimizer] = accelerator.prepare(net, adamw_of_net);
  const auto accelerated_step = [&, &model = model, &optimizer = optimizer] {
    const auto loss = torch::mse_loss(model(tokens), targets);
    accelerator.backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    accelerated_losses.push_back(loss.item<double>());
  };
  auto values = time_in_turns(turns, plain_step, accelerated_step);
  values["plain_losses"] = plain_losses;
  values["accelerated_losses"] = accelerated_losses;
  bench::report(values);
}

void run(const std::string& network, const Turns& turns) {
  if (network != "images" && network != "transformer")
    throw std::invalid_argument("the network is '" + network + "'; choose images or transformer");
  network == "images" ? train_on_images(turns) : train_transformer(turns);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::run_with_word(argc, argv, {"WARM_UP_STEPS", "STEPS"},
                              [](const std::string& network, const std::vector<int>& numbers) {
                                run(network, {numbers[0], numbers[1]});
                              });
}
