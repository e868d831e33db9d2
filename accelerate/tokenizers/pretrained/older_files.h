// Files from before tokenizer.json: vocab.txt, vocab.json with merges.txt, SentencePiece models.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate::detail {

/// A tokenizer.json made of the older files in `folder`, as the class that `config` names makes it;
/// nullopt if there are none. Throws ConfigError for damaged files and for a class that is unknown
/// here. A SentencePiece model without a known class is read as SentencePiece itself reads it.
/// Source: the constructors of transformers 5.23.
[[nodiscard]] std::optional<std::string> tokenizer_of_older_files(
    const std::filesystem::path& folder, const TokenizerConfig& config);

}  // namespace accelerate::detail
