// main() of the test binaries that need LibTorch: a rank of run_processes, or the tests.
#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "tests/support/ranks.h"

int main(int argc, char** argv) {
  const int code = accelerate::testing::run_rank_main_if_asked();
  if (code >= 0) return code;
  at::set_num_threads(1);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
