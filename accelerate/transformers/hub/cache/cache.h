// The local cache of Hugging Face's hub: finds models and datasets that this library or Python
// downloaded before. Only reads, and never uses the network; hub/download.h fills the cache.
//
// The layout is huggingface_hub 2.4's:
//
//   <cache>/models--<organization>--<name>/     datasets--… for a dataset
//     refs/<revision>                           the commit of a branch, tag or pull request
//     snapshots/<commit>/<file>                 a link to the content
//     blobs/<etag>                              the content
//
// Errors. ConfigError: an argument that is never valid, such as a revision with "..". FileError:
// the cache lacks something or is damaged; its path() is the path that was looked up.
//
// Threads: every function may be called from several threads at the same time, as long as no thread
// changes the environment. Environment variables are read in each call; Python reads them once, on
// import.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

/// Returns HF_HOME, else XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. Expands "~" and
/// $VARIABLES. Source: `huggingface_hub/constants.py`.
[[nodiscard]] std::filesystem::path hugging_face_home();

/// Returns the first of: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. Expands "~" and $VARIABLES. The folder
/// need not exist. As in Python, a variable that is set but empty counts; the path is then relative
/// to the working directory. Source: `huggingface_hub/constants.py`.
[[nodiscard]] std::filesystem::path hub_cache_folder();

/// Whether HF_HUB_OFFLINE is one of 1, on, yes, true in any case. If it is unset or empty,
/// TRANSFORMERS_OFFLINE counts instead. Every other value means no. Source:
/// `huggingface_hub/constants.py`.
[[nodiscard]] bool is_offline();

/// Returns the folder with the files of a model or dataset: `name_or_folder` unchanged if it is an
/// existing folder, else the snapshot of the repository with this name in the cache. A folder wins
/// over a repository, as in transformers. A snapshot may be partial: Python may have downloaded
/// only some files.
///
/// Throws ConfigError when `name_or_folder` is neither an existing folder nor a repository's id, or
/// when the revision is not a safe path. Throws FileError when the cache lacks the repository, the
/// revision or its snapshot, or when the file of the revision holds no commit. Cost: a few system
/// calls.
[[nodiscard]] std::filesystem::path resolve_folder(const std::string& name_or_folder,
                                                   const HubOptions& options = {});

/// Returns the path of `filename` in resolve_folder(`name_or_folder`, `options`). `filename` may be
/// in a subfolder ("onnx/config.json"). Returns nullopt when no regular file is there. Throws what
/// resolve_folder() throws. Throws ConfigError when `filename` is empty, absolute or has a "..".
/// Throws FileError when the file is a link to missing content, as an interrupted download leaves
/// it. Cost: resolves the folder in each call; to look for many files, pass the resolved folder.
[[nodiscard]] std::optional<std::filesystem::path> find_file(const std::string& name_or_folder,
                                                             const std::string& filename,
                                                             const HubOptions& options = {});

namespace detail {
/// Returns HubOptions::cache_dir with "~" expanded, or hub_cache_folder() if it is empty.
[[nodiscard]] std::filesystem::path cache_folder_of(const HubOptions& options);
/// Like resolve_folder() and find_file(), but for the repository `id` even if a folder has its
/// name.
[[nodiscard]] std::filesystem::path cached_snapshot(const std::string& id,
                                                    const HubOptions& options);
[[nodiscard]] std::optional<std::filesystem::path> find_cached_file(const std::string& id,
                                                                    const std::string& filename,
                                                                    const HubOptions& options);
}  // namespace detail

}  // namespace accelerate
