#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <c10/core/InferenceMode.h>

#include <utility>

#include "accelerate/transformers/models/generation/continuation.h"

namespace accelerate::detail {

at::Tensor sample(Continuation& continuation, at::Tensor ids, at::Tensor scores,
                  const Search& search, const OnTokens& on_tokens) {
  at::Tensor continues = at::ones({ids.size(0)}, ids.options().dtype(at::kBool));
  for (;;) {
    const at::Tensor changed = search.steps(ids, std::move(scores));
    at::Tensor tokens = *search.config.do_sample
                            ? at::multinomial(at::softmax(changed, -1), 1).squeeze(1)
                            : at::argmax(changed, -1);
    // Fills up rows that have ended. Without eos_token_id, all rows continue until all have ended.
    if (search.config.eos_token_id)
      tokens = at::where(continues, tokens, *search.config.pad_token_id);
    ids = at::cat({ids, tokens.unsqueeze(1)}, 1);
    if (on_tokens) {  // It gets ordinary tensors, made outside of InferenceMode.
      const c10::InferenceMode off(false);
      on_tokens(tokens.to(at::kCPU).clone());
    }
    continues = continues.logical_and(search.stopping(ids).logical_not());
    if (!continues.any().item<bool>()) return ids;
    scores = continuation.next_scores(ids);
  }
}

}  // namespace accelerate::detail
