// The local cache of Hugging Face's hub: finds models and datasets that Python downloaded. Only
// reads, and never uses the network. Python's `hf download NAME` fills the cache.
//
// The layout is huggingface_hub 2.4's:
//
//   <cache>/models--<organization>--<name>/     datasets--… for a dataset
//     refs/<revision>                           the commit of a branch, tag or pull request
//     snapshots/<commit>/<file>                 a link to the content
//     blobs/<etag>                              the content
//
// Errors. ConfigError: an argument that is never right, such as a revision with "..". FileError:
// the cache lacks something or is damaged; its path() is the place that was looked at.
//
// Threads: every function may be called from several threads at once, as long as none changes the
// environment. Environment variables are read in each call; Python reads them when imported.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace accelerate {

enum class RepoType { model, dataset };

/// Which version of a repository, and where. Local folders need none of it.
struct HubOptions {
  std::string revision = "main";    ///< A branch, a tag, "refs/pr/N" or a commit of 40 hex digits.
  RepoType type = RepoType::model;  ///< Models and datasets may have equal names.
  std::filesystem::path cache_dir = {};  ///< hub_cache_folder() when empty. "~" is expanded.
};

/// Returns HF_HOME, else XDG_CACHE_HOME/huggingface, else ~/.cache/huggingface. Expands "~" and
/// $VARIABLES. Source: `huggingface_hub/constants.py`.
[[nodiscard]] std::filesystem::path hugging_face_home();

/// Returns the first of: HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME/hub,
/// XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. Expands "~" and $VARIABLES. The folder
/// need not exist. As in Python a variable that is set but empty counts, and then the path is
/// relative to the working directory. Source: `huggingface_hub/constants.py`.
[[nodiscard]] std::filesystem::path hub_cache_folder();

/// Whether HF_HUB_OFFLINE, or TRANSFORMERS_OFFLINE where that is unset or empty, is one of 1, on,
/// yes, true in any case. Every other value means no. Source: `huggingface_hub/constants.py`.
[[nodiscard]] bool is_offline();

/// Whether `text` is "name" or "organization/name" by the hub's rules. A part is 1 to 96 of A-Z,
/// a-z, 0-9, '_', '-' and '.', and neither begins nor ends with '-' or '.'. The whole has no "--"
/// or ".." and does not end in ".git". Source: `validate_repo_id` of huggingface_hub.
[[nodiscard]] bool is_repo_id(std::string_view text);

/// Returns the folder with the files of a model or dataset: an existing folder `name_or_folder`
/// unchanged, else the snapshot of the repository of that name in the cache. A folder wins over a
/// repository, as in transformers. A snapshot may be partial: Python may have downloaded only some
/// files. Throws ConfigError when `name_or_folder` is neither an existing folder nor a repository's
/// id, or the revision is no safe path. Throws FileError when the cache lacks the repository, the
/// revision or its snapshot, or the file of the revision holds no commit. Cost: a few system calls.
[[nodiscard]] std::filesystem::path resolve_folder(const std::string& name_or_folder,
                                                   const HubOptions& options = {});

/// Returns the path of `filename`, which may be in a subfolder ("onnx/config.json"), in
/// resolve_folder(`name_or_folder`, `options`); nullopt when no regular file is there. Throws what
/// resolve_folder throws. Throws ConfigError when `filename` is empty, absolute or has a "..".
/// Throws FileError when the file is a link to missing content, as an interrupted download leaves
/// it. Cost: resolves the folder again in each call; pass the resolved folder to look for many.
[[nodiscard]] std::optional<std::filesystem::path> find_file(const std::string& name_or_folder,
                                                             const std::string& filename,
                                                             const HubOptions& options = {});

}  // namespace accelerate
