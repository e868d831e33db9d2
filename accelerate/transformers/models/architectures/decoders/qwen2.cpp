// Qwen 2: Llama with biases in attention, and a window in some layers.
// Source: Yang et al. 2024; `modeling_qwen2.py` of Transformers.
#include "accelerate/transformers/models/architectures/decoders/llama.h"

namespace accelerate::detail {

Architecture qwen2() {
  LlamaFamily family{.class_prefix = "Qwen2",
                     .biases = LlamaFamily::Biases::none,
                     .biases_queries = true,
                     .windows = LlamaFamily::Windows::some_layers};
  family.defaults.vocab_size = 151936;
  family.defaults.intermediate_size = 22016;
  family.defaults.max_position_embeddings = 32768;
  family.defaults.sliding_window = 4096;
  return llama_like("qwen2", family);
}

}  // namespace accelerate::detail
