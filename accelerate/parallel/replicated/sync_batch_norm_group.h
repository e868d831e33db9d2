// Tells the SyncBatchNorm layers of a model who their group is.
#pragma once

#include <cstddef>
#include <memory>

#include "accelerate/comm/communicator.h"

namespace torch::nn {
class Module;
}

namespace accelerate::detail {

/// Gives all SyncBatchNorm layers of `module` one group of their own with the ranks of
/// `communicator`, so that their collectives never mix with those of gradients; returns how many
/// there are. When `communicator` is renewed, their next forward in training splits another one
/// off. [collective when there are any]
std::size_t join_batch_norms(torch::nn::Module& module,
                             const std::shared_ptr<Communicator>& communicator);

}  // namespace accelerate::detail
