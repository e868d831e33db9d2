// Files from before tokenizer.json: vocab.txt, vocab.json with merges.txt, SentencePiece models.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_model.h"
#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate::detail {

// Makes a tokenizer.json of a SentencePiece model.

/// Makes a tokenizer.json of `model` as the class named in `config` does; without a class, as
/// SentencePiece itself reads the model: then `config` gets the roles of its special tokens, and
/// these are text where a text spells them. `file` stands for the model in messages. Throws
/// ConfigError for the algorithms word and character, and for a class of Transformers that builds
/// another tokenizer.
[[nodiscard]] nlohmann::json tokenizer_of_sentencepiece(SentencePieceModel model,
                                                        TokenizerConfig& config,
                                                        const std::string& file);

/// Returns a post-processor that adds the tokens that `add_bos_token` and `add_eos_token` of
/// `config` ask for.
[[nodiscard]] nlohmann::json template_of(
    const TokenizerConfig& config, const std::function<nlohmann::json(const std::string&)>& id_of);

/// Makes a tokenizer.json of the older files in `folder`, as the class named in `config` does.
/// Returns nullopt if there are no such files. Throws ConfigError for damaged files and for a class
/// that is not supported. Without a class, a SentencePiece model is read as SentencePiece itself
/// reads it, and `config` gets the roles of its special tokens.
/// Source: the constructors of transformers 5.23.
[[nodiscard]] std::optional<std::string> tokenizer_of_older_files(
    const std::filesystem::path& folder, TokenizerConfig& config);

}  // namespace accelerate::detail
