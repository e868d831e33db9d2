// What SentencePiece does to a text before it cuts it, in the parts of a tokenizer.json.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_model.h"
#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate::detail {

/// The letter that stands for a space in pieces.
inline constexpr char kBlank[] = "▁";

/// Returns a part that puts `content` where `pattern` is found.
[[nodiscard]] nlohmann::json replacement(const nlohmann::json& pattern, const std::string& content);
/// Returns the normalizer of the model's rules; nullopt if it has none.
[[nodiscard]] std::optional<nlohmann::json> precompiled_of(const SentencePieceModel& model);
/// Returns a normalizer that does what SentencePiece's normalizer does, in its order.
/// Source: sentencepiece 0.2.3, normalizer.cc.
[[nodiscard]] nlohmann::json normalizer_of_sentencepiece(const SentencePieceModel& model);
/// Whether a text can hold the piece: SentencePiece knows all others by their ids alone. A
/// user-defined symbol with a space cannot be found either, since spaces become blanks before.
[[nodiscard]] bool is_in_texts(const SentencePieceModel& model,
                               const SentencePieceModel::Piece& piece);
/// Whether the piece is a user-defined symbol, at which texts are cut. If the ends of texts lose
/// their blanks, then a symbol that ends with one would be lost, and is a piece like others.
[[nodiscard]] bool is_symbol(const SentencePieceModel& model,
                             const SentencePieceModel::Piece& piece);
/// Whether user-defined symbols are found after the whole text was normalized, as SentencePiece
/// does. Without it they are found before, and each part between two symbols is normalized by
/// itself.
[[nodiscard]] bool finds_symbols_in_normalized_text(const SentencePieceModel& model);
/// Gives the model's bos, eos and unk their roles, unless `config` names tokens for them.
void take_roles_of_sentencepiece(const SentencePieceModel& model, TokenizerConfig& config);

}  // namespace accelerate::detail
