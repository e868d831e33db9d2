// The state of an optimizer whose model lives in files.
#pragma once

namespace torch::optim {
class Optimizer;
}

namespace accelerate::detail {

/// Reserves files for the state that `optimizer` will have of the parameters whose state lives
/// there. Throws ConfigError when fused kernels do not step them: another kind of optimizer, or parameters
/// of 16 bits. Throws FileError when the disk is too full.
void reserve_state(torch::optim::Optimizer& optimizer);

/// Moves state of these parameters that lies elsewhere, as after loading a checkpoint, to its
/// files. Throws FileError.
void move_state(torch::optim::Optimizer& optimizer);

}  // namespace accelerate::detail
