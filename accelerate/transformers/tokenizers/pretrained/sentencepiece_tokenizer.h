// Makes a tokenizer.json of a SentencePiece model.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/transformers/tokenizers/pretrained/sentencepiece_model.h"
#include "accelerate/transformers/tokenizers/pretrained/tokenizer_config.h"

namespace accelerate::detail {

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

}  // namespace accelerate::detail
