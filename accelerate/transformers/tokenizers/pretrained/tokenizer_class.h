// What Transformers' tokenizer classes add to a tokenizer's files.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "accelerate/transformers/tokenizers/encoding.h"

namespace accelerate::detail {

/// The special tokens that have a name, in Transformers' order.
enum class Role : std::size_t { bos, eos, unk, sep, pad, cls, mask };
inline constexpr std::size_t kRoleCount = 7;
inline constexpr std::array<std::string_view, kRoleCount> kRoleKeys{
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

/// How a class makes a tokenizer of files older than tokenizer.json.
enum class Recipe {
  none,
  // vocab.txt
  bert,
  mpnet,
  funnel,
  // vocab.json and merges.txt
  gpt2,
  codegen,
  gpt_neox,
  roberta,
  blenderbot,
  deberta,
  qwen2,
  clip,
  openai_gpt,
  herbert,
  // SentencePiece
  llama,
  t5,
  xlm_roberta,
  albert,
  deberta_v2
};

struct TokenizerClass {
  std::string_view name;
  Recipe recipe;
  /// By role; "" if the class has no such token.
  std::array<std::string_view, kRoleCount> special_tokens;
  bool has_token_type_ids = false;
  Side padding_side = Side::right;
};

/// Returns the class of that name, with or without "Fast" at its end. For an unknown name returns a
/// class that adds nothing, so that the files alone decide.
/// Source: transformers 5.23, the signatures of the classes' constructors.
[[nodiscard]] const TokenizerClass& tokenizer_class(std::string_view name);
/// Returns Transformers' class of this name, or for this `model_type`, if it makes another tokenizer
/// of a SentencePiece model than SentencePiece does and is not built here; else "".
[[nodiscard]] std::string_view class_with_other_recipe(std::string_view name);
/// Returns the class that belongs to a `model_type` of config.json.
[[nodiscard]] const TokenizerClass& tokenizer_class_of_model(std::string_view model_type);

}  // namespace accelerate::detail
