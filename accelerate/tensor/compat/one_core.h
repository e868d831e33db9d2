// How many threads an operator uses, for one thread of ours.
#pragma once

namespace accelerate::detail {

/// Operators called on the calling thread compute on it alone from now on: threads that work beside
/// the training step would otherwise fight it for cores. Other threads are as they were.
void compute_on_one_core();

}  // namespace accelerate::detail
