// The token that authenticates requests. It is kept where Python's huggingface_hub keeps it, so one
// login serves both.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace accelerate {

/// Returns the first of: HF_TOKEN, HUGGING_FACE_HUB_TOKEN, the content of token_file(). Returns
/// nullopt if there is none. Line ends and spaces around the token are removed. Throws ConfigError
/// when the token holds a character that is not allowed in a header, such as a space. Throws
/// FileError when the file exists and cannot be read. HF_OIDC_RESOURCE is not supported, and the
/// tokens of a browser login are not renewed. Source: `get_token`.
[[nodiscard]] std::optional<std::string> get_token();

/// Returns HF_TOKEN_PATH, else HF_HOME/token.
[[nodiscard]] std::filesystem::path token_file();

/// Stores `token` in token_file(), from which get_token() reads it. Also stores it as `name` in the
/// file "stored_tokens" in the same folder; other tokens there stay. Only the owner can read either
/// file. Throws ConfigError for a token that get_token() would refuse, and for a name with ']' or
/// control characters. Throws FileError when a file cannot be written; the file then keeps its old
/// content.
void save_token(const std::string& token, const std::string& name);

/// Removes token_file() and the entries with its token in "stored_tokens". Returns false if there
/// was no token file.
bool forget_token();

namespace detail {
/// Returns HubOptions::token if set. Otherwise returns get_token(), unless
/// HF_HUB_DISABLE_IMPLICIT_TOKEN is on. Returns "" for no token.
[[nodiscard]] std::string token_to_send(const std::optional<std::string>& token);
}  // namespace detail

}  // namespace accelerate
