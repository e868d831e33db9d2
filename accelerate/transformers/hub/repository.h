// Identifies a repository of the hub and a revision of it, and says how to reach it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

enum class RepoType { model, dataset };

/// Which version of a repository, where, and with which rights. Local folders need none of these
/// options.
struct HubOptions {
  std::string revision = "main";    ///< A branch, a tag, "refs/pr/N" or a commit of 40 hex digits.
  RepoType type = RepoType::model;  ///< A model and a dataset may have the same name.
  std::filesystem::path cache_dir = {};  ///< hub_cache_folder() when empty. "~" is expanded.
  /// Sent to the endpoint and to no other host. get_token() when unset; "" sends none.
  std::optional<std::string> token = {};
  std::string endpoint = {};      ///< hub_endpoint() when empty.
  bool local_files_only = false;  ///< Uses only the cache, and no network.
  bool force_download = false;    ///< Downloads files even if they are in the cache.
  bool show_progress = true;      ///< A line a file on standard error, on rank 0.
  int max_workers = 8;            ///< Files transferred at the same time, 1 to 64.
  /// How often a request is repeated when the network or the hub fails.
  int max_retries = 5;
  /// The wait before the first retry. It doubles each time, up to eight times this value. If an
  /// answer has Retry-After, that is used instead, for at most ten minutes in all a request.
  std::chrono::milliseconds retry_wait{1000};
};

/// Whether `text` is "name" or "organization/name" by the hub's rules. A part is 1 to 96 of A-Z,
/// a-z, 0-9, '_', '-' and '.', and neither begins nor ends with '-' or '.'. The whole has no "--"
/// or ".." and does not end in ".git". Source: `validate_repo_id` of huggingface_hub.
[[nodiscard]] bool is_repo_id(std::string_view text);

/// Returns HF_ENDPOINT without trailing slashes, or "https://huggingface.co" if it is not set.
/// Throws ConfigError when HF_ENDPOINT is not an http or https URL.
[[nodiscard]] std::string hub_endpoint();

namespace detail {

/// The rule for ids, as the end of a sentence that begins "… is no " or "… nor ".
inline constexpr const char* kRepoIdRule =
    "a repository's id on the hub. An id is 'name' or 'organization/name'. Each part is 1 to 96 of "
    "A-Z a-z 0-9 _ - . and neither begins nor ends with - or . ; the id has no '--' or '..' and "
    "does not end in '.git'. Pass a folder that exists, or an id such as "
    "'google-bert/bert-base-uncased'";

/// Whether `text` is a commit: 40 lower-case hexadecimal digits.
[[nodiscard]] bool is_commit(std::string_view text);
/// Throws ConfigError, which states the rule, when `id` is not a repository's id.
void check_repo_id(const std::string& id);
/// Throws ConfigError when `path` is empty, absolute, or has a "..". `what` begins the sentence:
/// "the revision".
void check_safe(std::string_view what, const std::string& path);

/// Whether the value of a variable is 1, on, yes or true, in any case, as in huggingface_hub. Every
/// other value means no.
[[nodiscard]] bool is_on(const std::optional<std::string>& value);

/// Returns "model" or "dataset".
[[nodiscard]] std::string word_of(RepoType type);
/// Returns "the model 'google/bert'".
[[nodiscard]] std::string label_of(const std::string& id, RepoType type);
/// Returns the name of the repository's folder in a cache: "models--google--bert".
[[nodiscard]] std::string folder_name_of(const std::string& id, RepoType type);

/// Returns text that is safe to print: control characters, and bytes that are not UTF-8, become
/// '?'.
[[nodiscard]] std::string safe_text(std::string_view text);
/// Returns the text in quotes, safe to print and shortened if it is long.
[[nodiscard]] std::string shown(std::string_view text);
/// Returns at most eight of the texts, and how many more there are.
[[nodiscard]] std::string shown(const std::vector<std::string>& texts);
/// Like shown(), but a URL with an '@', which may hold a password, is only described.
[[nodiscard]] std::string shown_url(std::string_view url);
/// Returns the end of a command that downloads the repository: "organization/name --repo-type
/// dataset --revision v1 …".
[[nodiscard]] std::string command_words(const std::string& id, const HubOptions& options);

}  // namespace detail
}  // namespace accelerate
