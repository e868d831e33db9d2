// Mistral: Llama with a sliding window.
// Source: Jiang et al. 2023; `modeling_mistral.py` of Transformers.
#include "accelerate/transformers/models/architectures/decoders/llama.h"

namespace accelerate::detail {

Architecture mistral() {
  LlamaFamily family{.class_prefix = "Mistral",
                     .biases = LlamaFamily::Biases::none,
                     .windows = LlamaFamily::Windows::all_layers,
                     .base_of_question_answering = "model"};
  family.defaults.intermediate_size = 14336;
  family.defaults.num_key_value_heads = 8;
  family.defaults.max_position_embeddings = 131072;
  family.defaults.sliding_window = 4096;
  Architecture made = llama_like("mistral", family);
  made.gguf = llama().gguf;  // Files of llama.cpp say by their name that they are not of a Llama.
  made.gguf->name = "mistral";
  return made;
}

}  // namespace accelerate::detail
