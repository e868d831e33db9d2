// Gives the SyncBatchNorm layers of a model their group.
#pragma once

#include <cstddef>
#include <memory>

#include "accelerate/comm/communicator.h"

namespace torch::nn {
class Module;
}

namespace accelerate::detail {

/// Gives all SyncBatchNorm layers of `module` one separate group with the ranks of `communicator`,
/// so that their collectives never mix with the collectives of gradients. Returns the number of
/// layers. When `communicator` is renewed, the layers' next forward in training splits off another
/// group. [collective when there are layers]
std::size_t join_batch_norms(torch::nn::Module& module,
                             const std::shared_ptr<Communicator>& communicator);

}  // namespace accelerate::detail
