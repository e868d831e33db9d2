// `accelerate hub`: fetches and sends models and data of Hugging Face's hub.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "accelerate/transformers/hub/patterns.h"
#include "accelerate/transformers/hub/repository.h"
#include "accelerate/transformers/hub/upload.h"

namespace accelerate::cli {

/// Options of every command of `accelerate hub` that contacts the hub.
struct HubCommandOptions {
  std::string repo_id;
  std::string repo_type = "model";
  std::string token;  ///< Default: the token in the environment, else the stored one.
  HubOptions hub = {};
};

struct DownloadCommandOptions {
  HubCommandOptions common = {};
  std::vector<std::string> files = {};  ///< Default: all files that match `patterns`.
  FilePatterns patterns = {};
};

struct UploadCommandOptions {
  HubCommandOptions common = {};
  std::filesystem::path local_path = ".";
  std::string path_in_repo = {};  ///< Default: a file's name, or the root for a folder.
  bool is_private = false;        ///< Whether a new repository is private.
  UploadFolderOptions upload = {};
};

struct CacheCommandOptions {
  std::filesystem::path cache_dir = {};
  bool shows_revisions = false;
  std::vector<std::string> what = {};  ///< What to remove.
  bool is_sure = false;                ///< Whether to remove without asking.
  bool is_dry_run = false;             ///< Only says what would be removed.
};

/// Each command prints on `out` and returns the exit code. They throw what the functions of hub/
/// throw.
int run_download(DownloadCommandOptions options, std::ostream& out);
int run_upload(UploadCommandOptions options, std::ostream& out);
int run_login(HubCommandOptions options, std::ostream& out);
int run_logout(std::ostream& out);
int run_whoami(HubCommandOptions options, std::ostream& out);
int run_cache_list(const CacheCommandOptions& options, std::ostream& out);
int run_cache_remove(const CacheCommandOptions& options, std::ostream& out);

/// Adds `hub` to `app`; its outcome goes to `exit_code`.
void setup_hub(CLI::App& app, int& exit_code);

}  // namespace accelerate::cli
