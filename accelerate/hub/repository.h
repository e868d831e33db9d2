// Which repository of the hub, at which revision, and how it may be reached.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace accelerate {

enum class RepoType { model, dataset };

/// Which version of a repository, where, and with which rights. Local folders need none of it.
struct HubOptions {
  std::string revision = "main";    ///< A branch, a tag, "refs/pr/N" or a commit of 40 hex digits.
  RepoType type = RepoType::model;  ///< Models and datasets may have equal names.
  std::filesystem::path cache_dir = {};  ///< hub_cache_folder() when empty. "~" is expanded.
  /// Sent to the endpoint and to no other host. get_token() when unset; "" sends none.
  std::optional<std::string> token = {};
  std::string endpoint = {};      ///< hub_endpoint() when empty.
  bool local_files_only = false;  ///< Takes what is in the cache and uses no network.
  bool force_download = false;    ///< Fetches files anew that are in the cache.
  bool show_progress = true;      ///< A line a file on standard error, on rank 0.
  int max_workers = 8;            ///< Files at once, 1 to 64.
  int max_retries = 5;  ///< How often a request is sent again when the network or the hub fails.
  /// The wait before the first retry. It doubles each time, up to eight times this. An answer's
  /// Retry-After wins.
  std::chrono::milliseconds retry_wait{1000};
};

/// Whether `text` is "name" or "organization/name" by the hub's rules. A part is 1 to 96 of A-Z,
/// a-z, 0-9, '_', '-' and '.', and neither begins nor ends with '-' or '.'. The whole has no "--"
/// or ".." and does not end in ".git". Source: `validate_repo_id` of huggingface_hub.
[[nodiscard]] bool is_repo_id(std::string_view text);

/// Returns HF_ENDPOINT without slashes at its end, else "https://huggingface.co". Throws
/// ConfigError when HF_ENDPOINT is no http or https URL.
[[nodiscard]] std::string hub_endpoint();

namespace detail {

/// What an id is, to go on from "… is no " or "… nor ".
inline constexpr const char* kRepoIdRule =
    "a repository's id on the hub. An id is 'name' or 'organization/name'. Each part is 1 to 96 of "
    "A-Z a-z 0-9 _ - . and neither begins nor ends with - or . ; the id has no '--' or '..' and "
    "does not end in '.git'. Pass a folder that exists, or an id such as "
    "'google-bert/bert-base-uncased'";

/// A commit is 40 lower-case hexadecimal digits.
[[nodiscard]] bool is_commit(std::string_view text);
/// Throws ConfigError, which says the rule, when `id` is no repository's id.
void check_repo_id(const std::string& id);
/// Throws ConfigError when `path` is empty, absolute or leads out by "..". `what` begins the
/// sentence: "the revision".
void check_safe(std::string_view what, const std::string& path);

/// Whether a variable has one of the words 1, on, yes and true, in any case, which huggingface_hub
/// takes for yes. Every other value means no.
[[nodiscard]] bool is_on(const std::optional<std::string>& value);

/// "model", "dataset".
[[nodiscard]] std::string word_of(RepoType type);
/// "the model 'google/bert'"
[[nodiscard]] std::string label_of(const std::string& id, RepoType type);
/// The repository's folder in a cache: "models--google--bert".
[[nodiscard]] std::string folder_name_of(const std::string& id, RepoType type);

/// Safe to print: control characters, and bytes that are no UTF-8, become '?'.
[[nodiscard]] std::string safe_text(std::string_view text);
/// In quotes, safe to print and of bearable length.
[[nodiscard]] std::string shown(std::string_view text);
/// At most eight of them, and how many more there are.
[[nodiscard]] std::string shown(const std::vector<std::string>& texts);
/// As shown(), but of a URL with a user or password only that it has them.
[[nodiscard]] std::string shown_url(std::string_view url);
/// "organization/name --repo-type dataset --revision v1 …": the end of a command that fetches it.
[[nodiscard]] std::string command_words(const std::string& id, const HubOptions& options);

}  // namespace detail
}  // namespace accelerate
