// The environment of the process, which an Accelerator must leave alone: other threads may be reading
// it, and `setenv` may move it under them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "accelerate/accelerate.h"

namespace accelerate {
namespace {

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** next = environ; *next != nullptr; ++next) all.emplace_back(*next);
  return all;
}

TEST(ProcessEnvironment, IsSetBeforeMainAndLeftAloneLater) {
  EXPECT_NE(std::getenv("LRU_CACHE_CAPACITY"), nullptr);
  EXPECT_TRUE(std::getenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY") != nullptr ||
              std::getenv("DNNL_PRIMITIVE_CACHE_CAPACITY") != nullptr);
  const auto before = environment();
  Accelerator accelerator;
  torch::nn::Linear net(2, 2);
  auto model = accelerator.prepare(net);
  accelerator.backward(model(torch::ones({1, 2})).sum());
  EXPECT_EQ(environment(), before);
}

}  // namespace
}  // namespace accelerate
