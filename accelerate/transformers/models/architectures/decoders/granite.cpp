// Granite: Llama with factors of embeddings, scores, logits, and what each half of a layer adds.
// Source: Granite Team 2024; `modeling_granite.py` of Transformers.
#include "accelerate/transformers/models/architectures/decoders/llama.h"

namespace accelerate::detail {

Architecture granite() {
  Architecture made =
      llama_like("granite", {.class_prefix = "Granite",
                             .multiplies = true,
                             .without = {Task::sequence_classification, Task::token_classification,
                                         Task::question_answering}});
  made.gguf.reset();  // Transformers reads none.
  return made;
}

}  // namespace accelerate::detail
