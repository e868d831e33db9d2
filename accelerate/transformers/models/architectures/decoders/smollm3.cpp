// SmolLM 3: Llama in which each fourth layer does not rotate queries and keys.
// Source: Bakouch et al. 2025; `modeling_smollm3.py` of Transformers.
#include "accelerate/transformers/models/architectures/decoders/llama.h"

namespace accelerate::detail {

Architecture smollm3() {
  LlamaFamily family{.class_prefix = "SmolLM3",
                     .windows = LlamaFamily::Windows::some_layers,
                     .skips_rotations = true,
                     .default_theta = 2e6};
  family.defaults.vocab_size = 128256;
  family.defaults.hidden_size = 2048;
  family.defaults.num_hidden_layers = 36;
  family.defaults.num_attention_heads = 16;
  family.defaults.num_key_value_heads = 4;
  family.defaults.max_position_embeddings = 32768;
  family.defaults.pad_token_id = 128004;
  family.defaults.tie_word_embeddings = true;
  Architecture made = llama_like("smollm3", family);
  made.gguf.reset();  // Transformers reads none.
  return made;
}

}  // namespace accelerate::detail
