#pragma once

namespace accelerate {

/// Of summon_full_params().
struct SummonOptions {
  bool writeback = true;    ///< Changes to the parameters are kept: each rank those of its slice.
  bool rank0_only = false;  ///< Only rank 0 has them; not together with writeback.
};

}  // namespace accelerate
