// main() of the test binaries that need LibTorch: a rank of run_processes, or the tests.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include <cstdlib>

#include "tests/support/ranks.h"

int main(int argc, char** argv) {
  // Tests of 16-bit types are about these types on every CPU, however slow it is in them.
  setenv("ACCELERATE_CPU_HALF", "native", 0);
  // Many tests compare bits with plain LibTorch, which multiplies by MKL.
  setenv("ACCELERATE_CPU_MATMUL", "mkl", 0);
  const int code = accelerate::testing::run_rank_main_if_asked();
  if (code >= 0) return code;
  at::set_num_threads(1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
