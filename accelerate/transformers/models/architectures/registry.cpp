// The architectures of this library: one word each in both lists, for the source of that name.
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

Architecture bert(), roberta(), distilbert(), llama(), mistral(), qwen2(), gpt2();

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all{bert(),    roberta(), distilbert(), llama(),
                                             mistral(), qwen2(),   gpt2()};
  return all;
}

}  // namespace accelerate::detail
