// Batch normalisation over the batches of all ranks. Source: torch.nn.SyncBatchNorm.
#pragma once

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/pimpl.h>
#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>

#include "accelerate/comm/communicator.h"

namespace torch::nn {

// Gives the SyncBatchNorm layers of a model their group.
class Module;
}  // namespace torch::nn

namespace accelerate::detail {

/// Gives all SyncBatchNorm layers of `module` one separate group with the ranks of `communicator`,
/// so that their collectives never mix with the collectives of gradients. Returns the number of
/// layers. When `communicator` is renewed, the layers' next forward in training splits off another
/// group. [collective when there are layers]
std::size_t join_batch_norms(torch::nn::Module& module,
                             const std::shared_ptr<Communicator>& communicator);

}  // namespace accelerate::detail

namespace accelerate {

/// Replaces torch::nn::BatchNorm1d, 2d and 3d. Input: [N, C, …] of 2 to 5 dimensions, where N may
/// differ between ranks and be 0. Parameters and buffers have the names that they have in
/// BatchNorm, so either class loads the other's weights. Without a group the module normalises over
/// its own batch; Accelerator::prepare gives it a group.
///
/// In training mean and variance are computed over the samples of all ranks, in fp32 for 16-bit
/// inputs. The gradient of the input is the same as in one process with all samples. The gradients
/// of weight and bias are this rank's part, as data parallel training expects.
///
/// forward is [collective] in training: every rank must run it equally often (so not inside
/// join_uneven_inputs). Cost: an all-gather of 2C + 1 numbers in forward, an all-reduce of 2C
/// numbers in backward. Throws UsageError: wrong shape, fewer than two values per channel on all
/// ranks together.
class SyncBatchNormImpl
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& options);
  /// Takes over the parameters and buffers of `other`. They are not copied, so optimizers
  /// keep working.
  template <std::size_t D, typename Derived>
  explicit SyncBatchNormImpl(const torch::nn::BatchNormImplBase<D, Derived>& other)
      : SyncBatchNormImpl(other.options) {
    adopt({other.weight, other.bias, other.running_mean, other.running_var,
           other.num_batches_tracked});
    this->train(other.is_training());
  }

  at::Tensor forward(const at::Tensor& input);

  /// Sets the ranks that normalise together from now on. Local.
  void set_group(const std::shared_ptr<Communicator>& group) {
    group_ = [group] { return group; };
  }
  /// Sets a function that returns these ranks. It is called at each forward in training, on all
  /// ranks.
  void set_group(std::function<std::shared_ptr<Communicator>()> group) {
    group_ = std::move(group);
  }

  void pretty_print(std::ostream& stream) const override;

 private:
  struct State {
    at::Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  };
  void adopt(const State& state);
  void _check_input_dim(const at::Tensor& input) override;
  [[nodiscard]] at::Tensor normalise_alone(const at::Tensor& input, double factor);
  [[nodiscard]] double count_batch();

  std::function<std::shared_ptr<Communicator>()> group_ = single_communicator;
};
TORCH_MODULE(SyncBatchNorm);

/// Replaces every BatchNorm1d, 2d and 3d in `module` by a SyncBatchNorm with the same parameters
/// and buffers. Returns how many it replaced. Local; to be called before prepare(). C++ can
/// exchange what a torch::nn::Sequential holds, at any depth. A member of type BatchNorm in your
/// own class keeps its type: then nothing is replaced, and a UsageError names each such member and
/// the cure.
std::size_t convert_sync_batchnorm(torch::nn::Module& module);

}  // namespace accelerate
