#include <accelerate/base/text.h>
#include <accelerate/tensor/nested.h>
#include <torch/types.h>

#include <cstdio>
#include <map>

int main() {
  std::map<std::string, at::Tensor> batch = {{"ids", torch::ones({2, 3})}};
  const bool works = accelerate::collect_tensors(batch).size() == 1 && accelerate::format_bytes(1536) == "1.50 KB";
  if (works) std::puts("accelerate.cpp works from here");
  return works ? 0 : 1;
}
