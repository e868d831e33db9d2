// Decoders: one word each in both lists, for the source of that name, and one in registry.cpp.
#include "accelerate/transformers/models/architecture.h"

namespace accelerate::detail {

Architecture llama(), mistral(), qwen2(), qwen3(), smollm3(), olmo2(), granite(), phi3(), gemma2(),
    gemma3_text(), gpt2();

extern "C" const std::vector<Architecture>& accelerate_model_family() {
  static const std::vector<Architecture> all{llama(),   mistral(),     qwen2(),   qwen3(),
                                             smollm3(), olmo2(),       granite(), phi3(),
                                             gemma2(),  gemma3_text(), gpt2()};
  return all;
}

}  // namespace accelerate::detail
