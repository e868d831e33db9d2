// Limits how many threads an operator uses when it is called on a given thread.
#pragma once

namespace accelerate::detail {

/// Makes operators that the calling thread calls compute on this thread only. Otherwise threads
/// that work beside the training step would compete with it for cores. Other threads are not
/// affected.
void compute_on_one_core();

}  // namespace accelerate::detail
