// OLMo 2: Llama with norms behind attention and MLP, and a norm of all queries, and of all keys.
// Source: Team OLMo 2024; `modeling_olmo2.py` of Transformers.
#include "accelerate/transformers/models/architectures/decoders/llama.h"

namespace accelerate::detail {

Architecture olmo2() {
  LlamaFamily family{.class_prefix = "Olmo2",
                     .biases = LlamaFamily::Biases::of_attention,
                     .query_norms = LlamaFamily::QueryNorms::all_heads,
                     .norms_after = true,
                     .without = {Task::token_classification, Task::question_answering}};
  family.defaults.vocab_size = 50304;
  family.defaults.pad_token_id = 1;
  family.defaults.rms_norm_eps = 1e-5;
  Architecture made = llama_like("olmo2", family);
  made.gguf.reset();  // Transformers reads none.
  return made;
}

}  // namespace accelerate::detail
