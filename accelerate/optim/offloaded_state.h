// The state of an optimizer whose model lives in files.
#pragma once

#include <memory>

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

class OffloadStore;

/// Reserves files for the state that `optimizer` will have of the parameters that `store` knows.
/// Throws ConfigError when fused kernels do not step them: another kind of optimizer, or parameters
/// of 16 bits. Throws FileError when the disk is too full.
void reserve_state(torch::optim::Optimizer& optimizer, OffloadStore& store);

/// Moves state that lies in memory, as after loading a checkpoint, to `store`, if it knows the
/// parameter. Throws FileError.
void move_state(torch::optim::Optimizer& optimizer, OffloadStore& store);

}  // namespace accelerate::detail
