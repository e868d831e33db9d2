// A generative adversarial network: two models and two optimizers in one loop. The generator makes
// points of noise, the discriminator tells them from real ones, which lie on a ring.
#include <accelerate/accelerate.h>
#include <torch/torch.h>

#include "examples/cookbook/rounded.h"

namespace {

constexpr std::int64_t kNoise = 8;

/// Returns float32 {n, 2}: points on the circle of radius 2, each a little off.
torch::Tensor real_points(std::int64_t n) {
  const auto angle = 2 * M_PI * torch::rand({n});
  return 2 * torch::stack({angle.cos(), angle.sin()}, 1) + 0.05 * torch::randn({n, 2});
}

torch::nn::Sequential mlp(std::int64_t in, std::int64_t out) {
  using namespace torch::nn;
  return Sequential(Linear(in, 64), LeakyReLU(LeakyReLUOptions().negative_slope(0.2)),
                    Linear(64, 64), LeakyReLU(LeakyReLUOptions().negative_slope(0.2)),
                    Linear(64, out));
}

torch::optim::Adam adam_of(const torch::nn::Sequential& net) {
  return torch::optim::Adam(net->parameters(), torch::optim::AdamOptions(1e-3).betas({0.5, 0.99}));
}

/// Returns the mean binary cross-entropy of `scores`, {n, 1}, where all points are of one kind.
torch::Tensor loss_of(const torch::Tensor& scores, bool is_real) {
  return torch::binary_cross_entropy_with_logits(scores, torch::full_like(scores, is_real));
}

/// Prints the share of made points near the ring, and how much of the ring they cover.
void report(const accelerate::Accelerator& accelerator, const torch::Tensor& points, int epoch) {
  const auto near = (points.norm(2, 1) - 2).abs() < 0.3;
  const auto sector = ((torch::atan2(points.select(1, 1), points.select(1, 0)) + M_PI) * 8 / M_PI)
                          .floor()
                          .masked_select(near);
  const auto covered = std::get<0>(at::_unique(sector)).numel();
  accelerator.print("epoch", epoch, "near the ring",
                    rounded(near.to(torch::kDouble).mean().item<double>()),
                    "sectors of 16:", covered);
}

void run() {
  accelerate::Accelerator accelerator;
  accelerate::set_seed(42);
  auto generator_net = mlp(kNoise, 2), discriminator_net = mlp(2, 1);
  auto adam_g = adam_of(generator_net), adam_d = adam_of(discriminator_net);
  auto samples =
      accelerate::make_data_loader(real_points(4096), {.batch_size = 128, .shuffle = true});
  auto [generator, discriminator, optimizer_g, optimizer_d, batches] =
      accelerator.prepare(generator_net, discriminator_net, adam_g, adam_d, samples);
  accelerate::set_seed(42, {.device_specific = true});  // Each rank draws noise of its own.

  const auto test_noise = torch::randn({1024, kNoise}, torch::device(accelerator.device()));
  constexpr int kEpochs = 40;
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    for (auto& real : batches) {
      // First the discriminator learns. No gradient goes into the generator: fake is detached.
      const auto noise = torch::randn({real.size(0), kNoise}, torch::device(accelerator.device()));
      const auto fake = generator(noise);
      accelerator.backward(loss_of(discriminator(real), true) +
                           loss_of(discriminator(fake.detach()), false));
      optimizer_d.step();

      // Then the generator, from what the discriminator says of its points.
      accelerator.backward(loss_of(discriminator(fake), true));
      optimizer_g.step();
      optimizer_g.zero_grad();
      optimizer_d.zero_grad();  // Also what the second backward left in it.
    }
    if (epoch == 1 || epoch == kEpochs) {
      const torch::NoGradGuard no_grad;
      report(accelerator, generator(test_noise), epoch);
    }
  }
  accelerator.save_model(generator, "gan_output");
  accelerator.end_training();
}

}  // namespace

int main() {
  return accelerate::run_main(run);
}
