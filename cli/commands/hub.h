// `accelerate hub`: models and data of Hugging Face's hub.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

#include "accelerate/hub/patterns.h"
#include "accelerate/hub/repository.h"
#include "accelerate/hub/upload.h"

namespace accelerate::cli {

/// What every command of `accelerate hub` that asks the hub can be told.
struct HubCommandOptions {
  std::string repo_id;
  std::string repo_type = "model";
  std::string token;  ///< Else the environment's or the stored one.
  HubOptions hub = {};
};

struct DownloadCommandOptions {
  HubCommandOptions common = {};
  std::vector<std::string> files = {};  ///< Else all that `patterns` mean.
  FilePatterns patterns = {};
};

struct UploadCommandOptions {
  HubCommandOptions common = {};
  std::filesystem::path local_path = ".";
  std::string path_in_repo = {};  ///< For a file its name, for a folder the root, when empty.
  bool is_private = false;        ///< Of a repository that is made.
  UploadFolderOptions upload = {};
};

struct CacheCommandOptions {
  std::filesystem::path cache_dir = {};
  bool shows_revisions = false;
  std::vector<std::string> what = {};  ///< To remove.
  bool is_sure = false;                ///< Otherwise asks.
  bool is_dry_run = false;             ///< Says what would go.
};

/// Each prints on `out` and returns the exit code. They throw what the functions of hub/ throw.
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
