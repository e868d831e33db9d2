// Makes one tensor with LibTorch alone, and reports its memory: no process that uses LibTorch takes
// less.
#include <ATen/ops/ones.h>

#include "benchmarks/programs/measure.h"

int main() {
  const at::Tensor tensor = at::ones({1});
  bench::report({{"bytes", tensor.nbytes()}});
  return 0;
}
