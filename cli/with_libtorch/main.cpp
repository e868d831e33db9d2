// accelerate-torch: the tasks of the command line that need LibTorch. `accelerate` starts it.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/untrusted_text.h"
#include "cli/with_libtorch/tasks.h"

namespace accelerate::cli {
namespace {

int run(const std::vector<std::string>& words) {
  const std::string task = words.empty() ? "" : words[0];
  if (task == "describe" && words.size() == 1) {
    describe_libtorch();
  } else if (task == "model-types" && words.size() == 1) {
    list_model_types();
  } else if (task == "model-tensors" && words.size() == 2) {
    list_model_tensors(words[1]);
  } else if (task == "self-test" && words.size() == 3) {
    return run_self_test(words[1], words[2] == "second");
  } else {
    throw ConfigError("`accelerate` starts this program; call it instead");
  }
  return 0;
}

}  // namespace
}  // namespace accelerate::cli

int main(int argc, char** argv) {
  try {
    return accelerate::cli::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    // A message quotes files, which may hold what a terminal obeys.
    std::cerr << accelerate::detail::untrusted_text(accelerate::describe(error), 64 << 10) << "\n";
    return 1;
  }
}
