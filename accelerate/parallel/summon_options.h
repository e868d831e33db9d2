#pragma once

namespace accelerate {

/// Options of summon_full_params().
struct SummonOptions {
  bool writeback = true;    ///< Keeps changes to the parameters: each rank those in its slice.
  bool rank0_only = false;  ///< Only rank 0 gets whole parameters; not together with writeback.
};

}  // namespace accelerate
