#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <mutex>
#include <optional>

#include "accelerate/base/error.h"
#include "accelerate/transformers/datasets/collators/data_collators.h"
#include "accelerate/transformers/datasets/collators/tensors.h"

namespace accelerate {

namespace {

void check_share(const char* name, double value) {
  if (value >= 0 && value <= 1) return;
  throw UsageError(std::string(name) + " is " + std::to_string(value) + "; allowed are 0 to 1");
}

void check(const DataCollatorForLanguageModeling& collator) {
  if (collator.mlm && !collator.tokenizer.mask_token_id()) {
    throw UsageError(
        "the tokenizer has no mask token, which masked language modeling needs. Set mlm = false "
        "for causal language modeling");
  }
  check_share("mlm_probability", collator.mlm_probability);
  check_share("mask_replace_prob", collator.mask_replace_prob);
  check_share("random_replace_prob", collator.random_replace_prob);
  if (collator.mask_replace_prob + collator.random_replace_prob > 1) {
    throw UsageError("mask_replace_prob and random_replace_prob are " +
                     std::to_string(collator.mask_replace_prob + collator.random_replace_prob) +
                     " together; allowed is 1 at most");
  }
}

at::Tensor special_tokens_mask(const DataCollatorForLanguageModeling& collator,
                               const at::Tensor& ids) {
  at::Tensor mask = at::full({}, false).to(at::kBool).expand(ids.sizes()).clone();
  for (const std::int64_t id : collator.tokenizer.all_special_ids()) mask |= ids == id;
  return mask;
}

// Draws in the same order as Python.
void mask_tokens(const DataCollatorForLanguageModeling& collator, Inputs& inputs,
                 const std::optional<at::Generator>& generator) {
  const at::Tensor ids = inputs["input_ids"];
  const at::Tensor special = inputs.contains("special_tokens_mask")
                                 ? inputs["special_tokens_mask"].to(at::kBool)
                                 : special_tokens_mask(collator, ids);
  const auto drawn = [&](double share) {
    return at::bernoulli(at::full(ids.sizes(), share, at::kFloat), generator).to(at::kBool);
  };
  const at::Tensor chances =
      at::full(ids.sizes(), collator.mlm_probability, at::kFloat).masked_fill_(special, 0.0);
  const at::Tensor chosen = at::bernoulli(chances, generator).to(at::kBool);
  const at::Tensor masked = drawn(collator.mask_replace_prob) & chosen;
  at::Tensor changed = ids.masked_fill(masked, *collator.tokenizer.mask_token_id());
  if (collator.mask_replace_prob < 1 && collator.random_replace_prob > 0) {
    const at::Tensor random =
        drawn(collator.random_replace_prob / (1 - collator.mask_replace_prob)) & chosen & ~masked;
    const at::Tensor words = at::randint(static_cast<std::int64_t>(collator.tokenizer.size()),
                                         ids.sizes(), generator, at::kLong);
    changed = at::where(random, words, changed);
  }
  inputs.set("input_ids", changed);
  inputs.set("labels", ids.masked_fill(~chosen, -100));
}

}  // namespace

Inputs DataCollatorForLanguageModeling::operator()(std::vector<Row> rows) const {
  check(*this);
  Inputs inputs = detail::padded(tokenizer, rows, {.pad_to_multiple_of = pad_to_multiple_of});
  if (!mlm) {
    at::Tensor labels = inputs["input_ids"].clone();
    if (const auto pad = tokenizer.pad_token_id()) labels.masked_fill_(labels == *pad, -100);
    inputs.set("labels", labels);
  } else if (seed) {
    const std::lock_guard turn(generator->turn);
    if (!generator->generator) generator->generator = at::detail::createCPUGenerator(*seed);
    mask_tokens(*this, inputs, generator->generator);
  } else {
    mask_tokens(*this, inputs, std::nullopt);
  }
  inputs.erase("special_tokens_mask");
  return inputs;
}

}  // namespace accelerate
