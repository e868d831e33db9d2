// Models and datasets of Hugging Face's hub, fetched into the cache that Python's huggingface_hub
// uses too: each finds what the other fetched, and both may fetch at once.
//
//   auto config = hf_hub_download("google-bert/bert-base-cased", "config.json");
//   auto folder = snapshot_download("google-bert/bert-base-cased", {}, {.allow = {"*.json"}});
//
// The network is libcurl's: proxies by http_proxy, https_proxy and no_proxy; certificates are
// verified, by REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE where set. Time limits are
// HF_HUB_ETAG_TIMEOUT for a connection and HF_HUB_DOWNLOAD_TIMEOUT between two bytes.
//
// Errors. HubError: the hub refuses. NetworkError: there is no answer, or content that is not what
// was promised. ConfigError: an argument or a variable. FileError: the cache.
//
// Threads and processes: any number at once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/hub/patterns.h"
#include "accelerate/hub/repository.h"

namespace accelerate {

/// Returns the path, in the cache, of `filename` in the repository `repo_id`. Fetches it unless it
/// is there. A branch or tag is looked up on the hub each time; when the hub cannot be reached or
/// refuses, what the cache has of it is taken, with a warning. What was fetched in part goes on;
/// what arrives is checked against the checksum that the hub has of it. Cost of a file that is
/// there: one request, none for a commit or with local_files_only or HF_HUB_OFFLINE.
[[nodiscard]] std::filesystem::path hf_hub_download(const std::string& repo_id,
                                                    const std::string& filename,
                                                    const HubOptions& options = {});

/// Returns the folder, in the cache, with the files of the repository `repo_id` that `patterns`
/// means, HubOptions::max_workers fetched at once. Other rules as hf_hub_download(). The folder may
/// hold more: files of earlier calls. Without the hub, throws FileError when the cache is known to
/// lack one of the files. Cost where all are there: one request, two the first time.
[[nodiscard]] std::filesystem::path snapshot_download(const std::string& repo_id,
                                                      const HubOptions& options = {},
                                                      const FilePatterns& patterns = {});

/// The files of a repository at a commit.
struct RepositoryListing {
  std::string commit;
  std::vector<std::string> files;  ///< Paths in the repository, sorted.
};

/// Returns what the hub lists. Without the hub: the list that the cache has, else the files that it
/// has. Other rules as snapshot_download().
[[nodiscard]] RepositoryListing list_repo_files(const std::string& repo_id,
                                                const HubOptions& options = {});

/// Returns the folder `name_or_folder` unchanged if it exists, else snapshot_download() of the
/// repository of that name. A folder wins, as in transformers. What the cache has without the hub
/// may lack files. Throws ConfigError when it is neither, and what snapshot_download() throws.
[[nodiscard]] std::filesystem::path fetch_folder(const std::string& name_or_folder,
                                                 const HubOptions& options = {},
                                                 const FilePatterns& patterns = {});

/// Returns the path of `filename` in fetch_folder(); nullopt where the folder or the repository has
/// none.
[[nodiscard]] std::optional<std::filesystem::path> fetch_file(const std::string& name_or_folder,
                                                              const std::string& filename,
                                                              const HubOptions& options = {});

}  // namespace accelerate
