// Does one thing with the hub for tests/transformers/hub/*_live.py. The argument is a JSON object with "call",
// the call's arguments, and any of the fields of HubOptions ("retry_wait_ms" for the wait).
// Standard output is {"value": …}, or {"error": its type, "message": …, "reason": …, "status": …}.
//
//   {"call": "hf_hub_download", "id": …, "file": …}
//   {"call": "snapshot_download", "id": …, "allow": […], "ignore": […]}
//   {"call": "list_repo_files", "id": …}
//   {"call": "create_repo", "id": …, "private": …, "exist_ok": …}
//   {"call": "create_commit", "id": …, "operations": [{"add": …, "path" or "text": …}, {"delete":
//   …}],
//    "message": …, "description": …, "parent": …, "create_pr": …}
//   {"call": "upload_folder", "id": …, "folder": …, "path_in_repo": …, "delete": […], "times": N}
//   {"call": "whoami"}, {"call": "login", "token": …}, {"call": "get_token"}
//   {"call": "matches", "text": …, "allow": […], "ignore": […]}
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/hub/account.h"
#include "accelerate/transformers/hub/download.h"
#include "accelerate/transformers/hub/hub_error.h"
#include "accelerate/transformers/hub/token.h"
#include "accelerate/transformers/hub/upload.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Texts = std::vector<std::string>;

HubOptions options_of(const Json& asked) {
  HubOptions options;
  options.revision = asked.value("revision", options.revision);
  options.cache_dir = asked.value("cache_dir", std::string());
  options.endpoint = asked.value("endpoint", std::string());
  options.local_files_only = asked.value("local_files_only", false);
  options.force_download = asked.value("force_download", false);
  options.show_progress = asked.value("show_progress", false);
  options.max_workers = asked.value("max_workers", options.max_workers);
  options.max_retries = asked.value("max_retries", options.max_retries);
  options.retry_wait = std::chrono::milliseconds(asked.value("retry_wait_ms", 1000));
  if (asked.contains("token")) options.token = asked["token"].get<std::string>();
  if (asked.value("type", "model") == "dataset") options.type = RepoType::dataset;
  return options;
}

FilePatterns patterns_of(const Json& asked) {
  return {.allow = asked.value("allow", Texts()), .ignore = asked.value("ignore", Texts())};
}

CommitOptions commit_of(const Json& asked) {
  return {.commit_message = asked.value("message", ""),
          .commit_description = asked.value("description", ""),
          .parent_commit = asked.value("parent", ""),
          .create_pr = asked.value("create_pr", false)};
}

std::vector<CommitOperation> operations_of(const Json& asked) {
  std::vector<CommitOperation> operations;
  for (const Json& one : asked.at("operations")) {
    if (one.contains("delete")) {
      operations.emplace_back(CommitOperationDelete{one["delete"]});
    } else if (one.contains("text")) {
      operations.emplace_back(CommitOperationAdd{one.at("add"), one["text"].get<std::string>()});
    } else {
      const std::filesystem::path path = one.at("path").get<std::string>();
      operations.emplace_back(CommitOperationAdd{one.at("add"), path});
    }
  }
  return operations;
}

Json json_of(const CommitInfo& info) {
  return {{"commit_url", info.commit_url},
          {"oid", info.oid},
          {"pr_url", info.pr_url},
          {"is_new", info.is_new}};
}

// In the background: "times" uploads one after the other.
Json upload_of(const Json& asked) {
  const UploadFolderOptions upload{.path_in_repo = asked.value("path_in_repo", ""),
                                   .patterns = patterns_of(asked),
                                   .delete_patterns = asked.value("delete", Texts()),
                                   .commit = commit_of(asked)};
  const HubOptions options = options_of(asked);
  if (!asked.contains("times"))
    return json_of(
        upload_folder(asked.at("id"), asked.at("folder").get<std::string>(), options, upload));
  BackgroundUploads uploads;
  std::vector<std::future<CommitInfo>> outcomes;
  for (int i = 0; i < asked.at("times").get<int>(); ++i)
    outcomes.push_back(uploads.upload_folder(asked.at("id"), asked.at("folder").get<std::string>(),
                                             options, upload));
  Json all = Json::array();
  for (auto& outcome : outcomes) all.push_back(json_of(outcome.get()));
  return all;
}

Json value_of(const Json& asked) {
  const std::string call = asked.at("call");
  const std::string id = asked.value("id", "");
  const HubOptions options = options_of(asked);
  if (call == "hf_hub_download") return hf_hub_download(id, asked.at("file"), options).string();
  if (call == "snapshot_download")
    return snapshot_download(id, options, patterns_of(asked)).string();
  if (call == "list_repo_files") return list_repo_files(id, options).files;
  if (call == "create_repo") {
    CreateRepoOptions create{.is_private = {}, .exist_ok = asked.value("exist_ok", false)};
    if (asked.contains("private")) create.is_private = asked["private"].get<bool>();
    return create_repo(id, options, create);
  }
  if (call == "create_commit")
    return json_of(create_commit(id, operations_of(asked), options, commit_of(asked)));
  if (call == "upload_folder") return upload_of(asked);
  if (call == "whoami") return whoami(options).name;
  if (call == "login") return login(asked.at("token"), options).name;
  if (call == "get_token") return get_token() ? Json(*get_token()) : Json();
  if (call == "matches") return patterns_of(asked).matches(asked.at("text").get<std::string>());
  throw UsageError("no call " + call);
}

Json answer(const Json& asked) {
  try {
    return {{"value", value_of(asked)}};
  } catch (const HubError& error) {
    return {{"error", error.kind()},
            {"message", error.what()},
            {"reason", static_cast<int>(error.reason())},
            {"status", error.status()}};
  } catch (const Error& error) {
    return {{"error", error.kind()}, {"message", error.what()}};
  }
}

}  // namespace
}  // namespace accelerate

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::cout << accelerate::answer(nlohmann::json::parse(argv[1])).dump() << std::endl;
  return 0;
}
