#include "cli/commands/commands.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/account.h"
#include "accelerate/transformers/hub/download.h"
#include "accelerate/transformers/hub/push.h"
#include "accelerate/transformers/hub/token.h"
#include "cli/terminal/prompt.h"

namespace accelerate::cli {
namespace {

namespace fs = std::filesystem;

HubOptions hub_options(const HubCommandOptions& options) {
  HubOptions hub = options.hub;
  if (options.repo_type != "model" && options.repo_type != "dataset") {
    throw ConfigError("--repo-type is '" + options.repo_type + "'; allowed are model and dataset." +
                      did_you_mean(options.repo_type, {"model", "dataset"}));
  }
  hub.type = options.repo_type == "dataset" ? RepoType::dataset : RepoType::model;
  if (!options.token.empty()) hub.token = options.token;
  return hub;
}

std::string role_of(const HubAccount& account) {
  return account.token_role.empty() ? "" : " (the token may " + account.token_role + ")";
}

CommitInfo upload(const std::string& id, const UploadCommandOptions& options,
                  const HubOptions& hub) {
  if (real_file_system().status(options.local_path).kind == FileKind::directory) {
    UploadFolderOptions folder = options.upload;
    folder.path_in_repo = options.path_in_repo;
    return upload_folder(id, options.local_path, hub, folder);
  }
  const std::string path =
      options.path_in_repo.empty() ? options.local_path.filename().string() : options.path_in_repo;
  return upload_file(id, {path, options.local_path}, hub, options.upload.commit);
}

void add_repository(CLI::App* command, HubCommandOptions& options) {
  command->add_option("REPO_ID", options.repo_id, "'name' or 'organization/name'")
      ->required()
      ->type_name("");
  command->add_option("--repo-type,--repo_type", options.repo_type, "model or dataset [model]")
      ->type_name("TYPE");
  command->add_option("--revision", options.hub.revision, "Branch, tag or commit [main]")
      ->type_name("REVISION");
}

void add_token(CLI::App* command, HubCommandOptions& options) {
  command
      ->add_option("--token", options.token,
                   "Instead of HF_TOKEN or the one of `accelerate hub login`")
      ->type_name("TOKEN");
}

void add_quiet(CLI::App* command, HubCommandOptions& options) {
  command->add_flag_callback(
      "--quiet", [&options] { options.hub.show_progress = false; }, "Show no progress");
}

void add_patterns(CLI::App* command, FilePatterns& patterns) {
  command->add_option("--include", patterns.allow, "Only files that match: '*.json' 'onnx/'")
      ->type_name("PATTERN");
  command->add_option("--exclude", patterns.ignore, "Not files that match")->type_name("PATTERN");
}

void setup_download(CLI::App* hub, int& exit_code) {
  auto* command = hub->add_subcommand("download", "Fetch a repository, or files of it");
  auto options = std::make_shared<DownloadCommandOptions>();
  add_repository(command, options->common);
  command->add_option("FILES", options->files, "Files in the repository [all]")->type_name("");
  add_patterns(command, options->patterns);
  command
      ->add_option("--cache-dir,--cache_dir", options->common.hub.cache_dir,
                   "Where it goes [HF_HUB_CACHE, ~/.cache/huggingface/hub]")
      ->type_name("DIR");
  command->add_flag("--force-download,--force_download", options->common.hub.force_download,
                    "Fetch what is there again");
  command
      ->add_option("--max-workers,--max_workers", options->common.hub.max_workers,
                   "Files at once [8]")
      ->type_name("N");
  add_token(command, options->common);
  add_quiet(command, options->common);
  command->footer(
      "\nPrints the folder, or the one file, in the cache. What is there is not fetched "
      "again;\nwhat was interrupted continues.");
  command->callback([options, &exit_code] { exit_code = run_download(*options, std::cout); });
}

void add_commit(CLI::App* command, CommitOptions& commit) {
  command->add_option("--commit-message,--commit_message", commit.commit_message, "Its first line")
      ->type_name("TEXT");
  command
      ->add_option("--commit-description,--commit_description", commit.commit_description,
                   "What follows it")
      ->type_name("TEXT");
  command->add_flag("--create-pr,--create_pr", commit.create_pr,
                    "Open a pull request instead of changing the revision");
}

void setup_upload(CLI::App* hub, int& exit_code) {
  auto* command = hub->add_subcommand("upload", "Send a folder or a file, in one commit");
  auto options = std::make_shared<UploadCommandOptions>();
  add_repository(command, options->common);
  command->add_option("LOCAL_PATH", options->local_path, "Folder or file [.]")->type_name("");
  command->add_option("PATH_IN_REPO", options->path_in_repo, "Where it goes [its root]")
      ->type_name("");
  add_patterns(command, options->upload.patterns);
  command
      ->add_option("--delete", options->upload.delete_patterns,
                   "Files there that go, unless they are sent")
      ->type_name("PATTERN");
  command->add_flag("--private", options->is_private, "If the repository has to be made");
  add_commit(command, options->upload.commit);
  add_token(command, options->common);
  add_quiet(command, options->common);
  command->footer(
      "\nMakes the repository if there is none. What it has already is not sent, so "
      "that an upload\nthat was interrupted continues.");
  command->callback([options, &exit_code] { exit_code = run_upload(*options, std::cout); });
}

void setup_account(CLI::App* hub, int& exit_code) {
  auto options = std::make_shared<HubCommandOptions>();
  auto* login = hub->add_subcommand("login", "Keep a token, for Python's tools too");
  add_token(login, *options);
  login->footer(
      "\nAsks for the token, or reads it from standard input. Make one at\n"
      "https://huggingface.co/settings/tokens");
  login->callback([options, &exit_code] { exit_code = run_login(*options, std::cout); });
  auto* logout = hub->add_subcommand("logout", "Forget the token");
  logout->callback([&exit_code] { exit_code = run_logout(std::cout); });
  auto* whoami = hub->add_subcommand("whoami", "Say whose the token is");
  add_token(whoami, *options);
  whoami->callback([options, &exit_code] { exit_code = run_whoami(*options, std::cout); });
}

void setup_cache(CLI::App* hub, int& exit_code) {
  auto* command = hub->add_subcommand("cache", "List what was downloaded, or remove it");
  auto options = std::make_shared<CacheCommandOptions>();
  command->add_option("--cache-dir,--cache_dir", options->cache_dir, "Another cache")
      ->type_name("DIR");
  command->add_flag("--revisions", options->shows_revisions, "A line a revision");
  auto* remove = command->add_subcommand("rm", "Remove repositories or revisions");
  remove
      ->add_option("WHAT", options->what,
                   "model/ORGANIZATION/NAME, dataset/…, or the first digits of a commit")
      ->required()
      ->type_name("");
  remove->add_flag("-y,--yes", options->is_sure, "Do not ask");
  remove->add_flag("--dry-run,--dry_run", options->is_dry_run, "Only say what would go");
  remove->callback([options, &exit_code] { exit_code = run_cache_remove(*options, std::cout); });
  command->callback([options, remove, &exit_code] {
    if (!remove->parsed()) exit_code = run_cache_list(*options, std::cout);
  });
}

}  // namespace

int run_download(DownloadCommandOptions options, std::ostream& out) {
  const HubOptions hub = hub_options(options.common);
  const std::string& id = options.common.repo_id;
  if (!options.files.empty() &&
      !(options.patterns.allow.empty() && options.patterns.ignore.empty()))
    throw ConfigError(
        "files are named, and --include or --exclude is given; allowed is one of them");
  if (options.files.size() == 1) {
    out << hf_hub_download(id, options.files.front(), hub).string() << "\n";
    return 0;
  }
  for (const std::string& file : options.files)
    options.patterns.allow.push_back(detail::pattern_of(file));
  const fs::path folder = snapshot_download(id, hub, options.patterns);
  for (const std::string& file : options.files) {
    if (real_file_system().status(folder / file).kind != FileKind::file)
      throw FileError("find", folder / file, "the repository has no such file");
  }
  out << folder.string() << "\n";
  return 0;
}

int run_upload(UploadCommandOptions options, std::ostream& out) {
  const HubOptions hub = hub_options(options.common);
  if (real_file_system().status(options.local_path).kind == FileKind::none)
    throw FileError("upload", options.local_path, "no such file or folder");
  const std::string id = owned_repo_id(options.common.repo_id, hub);
  create_repo(
      id, hub,
      {.is_private = options.is_private ? std::optional(true) : std::nullopt, .exist_ok = true});
  const CommitInfo commit = upload(id, options, hub);
  if (!commit.is_new) out << "nothing has changed since ";
  out << (commit.pr_url.empty() ? commit.commit_url : commit.pr_url) << "\n";
  return 0;
}

int run_login(HubCommandOptions options, std::ostream& out) {
  const std::string token = options.token.empty() ? read_secret("Token: ") : options.token;
  const HubAccount account = login(std::string(trim(token)), options.hub);
  out << "logged in as " << account.name << role_of(account) << "; the token is in "
      << token_file().string() << "\n";
  return 0;
}

int run_logout(std::ostream& out) {
  out << (forget_token() ? "logged out" : "there was no token in " + token_file().string()) << "\n";
  return 0;
}

int run_whoami(HubCommandOptions options, std::ostream& out) {
  const HubAccount account = whoami(hub_options(options));
  out << account.name << role_of(account) << "\n";
  if (!account.organizations.empty())
    out << "organizations: " << join(account.organizations, ", ") << "\n";
  return 0;
}

void setup_hub(CLI::App& app, int& exit_code) {
  auto* hub = app.add_subcommand("hub", "Fetch and send models and data of Hugging Face's hub");
  hub->require_subcommand(1);
  setup_download(hub, exit_code);
  setup_upload(hub, exit_code);
  setup_account(hub, exit_code);
  setup_cache(hub, exit_code);
}

}  // namespace accelerate::cli
