// Qwen 3: Llama with a norm of each query and key, and a window in some layers.
// Source: Yang et al. 2025; `modeling_qwen3.py` of Transformers.
#include "accelerate/transformers/models/architectures/decoders/llama.h"

namespace accelerate::detail {

Architecture qwen3() {
  LlamaFamily family{.class_prefix = "Qwen3",
                     .biases = LlamaFamily::Biases::of_attention,
                     .windows = LlamaFamily::Windows::some_layers,
                     .query_norms = LlamaFamily::QueryNorms::each_head};
  family.defaults.vocab_size = 151936;
  family.defaults.intermediate_size = 22016;
  family.defaults.num_key_value_heads = 32;
  family.defaults.head_dim = 128;
  family.defaults.max_position_embeddings = 32768;
  family.defaults.sliding_window = 4096;
  Architecture made = llama_like("qwen3", family);
  made.gguf->inside.insert(made.gguf->inside.end(), {{"attn_q_norm", "self_attn.q_norm"},
                                                     {"attn_k_norm", "self_attn.k_norm"}});
  return made;
}

}  // namespace accelerate::detail
