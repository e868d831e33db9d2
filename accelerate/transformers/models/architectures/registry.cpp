// The architectures of this library: one word each in both lists, for the source of that name.
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

Architecture bert(), roberta(), xlm_roberta(), camembert(), electra(), distilbert(), llama(),
    mistral(), qwen2(), qwen3(), smollm3(), olmo2(), granite(), gpt2();

const std::vector<Architecture>& architectures() {
  static const std::vector<Architecture> all{
      bert(),    roberta(), xlm_roberta(), camembert(), electra(), distilbert(), llama(),
      mistral(), qwen2(),   qwen3(),       smollm3(),   olmo2(),   granite(),    gpt2()};
  return all;
}

}  // namespace accelerate::detail
