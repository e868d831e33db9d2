// The token that says who asks. It is kept where Python's huggingface_hub keeps it, so that both
// are logged in at once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace accelerate {

/// Returns the first of: HF_TOKEN, HUGGING_FACE_HUB_TOKEN, the file token_file(). nullopt if none.
/// Line ends and spaces around it are taken off. Throws ConfigError when it holds what cannot be in
/// a header, such as a space; FileError when the file is there and cannot be read. HF_OIDC_RESOURCE
/// is not known, and tokens of a browser's login are not renewed. Source: `get_token`.
[[nodiscard]] std::optional<std::string> get_token();

/// Returns HF_TOKEN_PATH, else HF_HOME/token.
[[nodiscard]] std::filesystem::path token_file();

/// Makes `token` the one that get_token() reads from token_file(), and keeps it by `name` in the
/// file "stored_tokens" beside it, where other tokens stay. Both files are readable by their owner
/// alone. Throws ConfigError for a token as get_token() does and for a name with ']' or control
/// characters, FileError when a file cannot be written; then what was there stays.
void save_token(const std::string& token, const std::string& name);

/// Removes token_file() and the entries with its token in "stored_tokens". False if there was none.
bool forget_token();

namespace detail {
/// HubOptions::token if set, else get_token() unless HF_HUB_DISABLE_IMPLICIT_TOKEN is on; "" for
/// none.
[[nodiscard]] std::string token_to_send(const std::optional<std::string>& token);
}  // namespace detail

}  // namespace accelerate
