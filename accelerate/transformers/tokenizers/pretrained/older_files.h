// Files from before tokenizer.json: vocab.txt, vocab.json with merges.txt, SentencePiece models.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate::detail {

/// Makes a tokenizer.json of the older files in `folder`, as the class named in `config` does.
/// Returns nullopt if there are no such files. Throws ConfigError for damaged files and for a class
/// that is not supported. Without a class, a SentencePiece model is read as SentencePiece itself
/// reads it, and `config` gets the roles of its special tokens.
/// Source: the constructors of transformers 5.23.
[[nodiscard]] std::optional<std::string> tokenizer_of_older_files(
    const std::filesystem::path& folder, TokenizerConfig& config);

}  // namespace accelerate::detail
