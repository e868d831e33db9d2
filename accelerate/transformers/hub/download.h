// Downloads models and datasets of Hugging Face's hub into the cache that Python's huggingface_hub
// also uses. Each finds the other's files, and both may download at the same time.
//
//   auto config = hf_hub_download("google-bert/bert-base-cased", "config.json");
//   auto folder = snapshot_download("google-bert/bert-base-cased", {}, {.allow = {"*.json"}});
//
// libcurl does the network access. Proxies come from http_proxy, https_proxy and no_proxy.
// Certificates are verified, with REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE or SSL_CERT_FILE if set. Time
// limits are HF_HUB_ETAG_TIMEOUT for a connection and HF_HUB_DOWNLOAD_TIMEOUT between two bytes.
//
// Errors. HubError: the hub refuses. NetworkError: there is no answer, or the content is not what
// was promised. ConfigError: an argument or a variable. FileError: the cache.
//
// Threads and processes: any number at the same time.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/patterns.h"
#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

/// Returns the path, in the cache, of `filename` in the repository `repo_id`. Downloads the file
/// unless it is there. A branch or tag is looked up on the hub each time. If the hub cannot be
/// reached or refuses, the cached file is used, with a warning. An interrupted download continues,
/// and the content is checked against the hub's checksum. Cost for a file in the cache: one
/// request, none for a commit or with local_files_only or HF_HUB_OFFLINE.
[[nodiscard]] std::filesystem::path hf_hub_download(const std::string& repo_id,
                                                    const std::string& filename,
                                                    const HubOptions& options = {});

/// Returns the folder, in the cache, with the files of the repository `repo_id` that match
/// `patterns`. HubOptions::max_workers files are downloaded at the same time. Otherwise works like
/// hf_hub_download(). The folder may hold other files from earlier calls. Without the hub, throws
/// FileError when the cache is known to lack one of the files. Cost if all files are there: one
/// request, two the first time.
[[nodiscard]] std::filesystem::path snapshot_download(const std::string& repo_id,
                                                      const HubOptions& options = {},
                                                      const FilePatterns& patterns = {});

/// The files of a repository at a commit.
struct RepositoryListing {
  std::string commit;
  std::vector<std::string> files;  ///< Paths in the repository, sorted.
};

/// Returns the files that the hub lists. Without the hub, returns the list in the cache, or else
/// the files in the cache. Otherwise works like snapshot_download().
[[nodiscard]] RepositoryListing list_repo_files(const std::string& repo_id,
                                                const HubOptions& options = {});

/// Returns the folder `name_or_folder` unchanged if it exists, else snapshot_download() of the
/// repository with this name. A folder wins, as in transformers. Without the hub, the cached
/// snapshot may lack files. Throws ConfigError when `name_or_folder` is neither a folder nor an id,
/// and what snapshot_download() throws.
[[nodiscard]] std::filesystem::path fetch_folder(const std::string& name_or_folder,
                                                 const HubOptions& options = {},
                                                 const FilePatterns& patterns = {});

/// Returns the path of `filename` in fetch_folder(); nullopt if the folder or the repository lacks
/// the file.
[[nodiscard]] std::optional<std::filesystem::path> fetch_file(const std::string& name_or_folder,
                                                              const std::string& filename,
                                                              const HubOptions& options = {});

}  // namespace accelerate
