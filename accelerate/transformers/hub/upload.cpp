#include "accelerate/transformers/hub/upload.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "accelerate/base/bytes.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/hub/cache/cache_files.h"
#include "accelerate/transformers/hub/transfer/commit_files.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/repository_tree.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Answer = nlohmann::json;
using detail::CommitFile;
using detail::HubClient;
using detail::HubSubject;
using detail::text_in;

const std::string& path_of(const CommitOperation& operation) {
  return std::visit([](const auto& one) -> const std::string& { return one.path_in_repo; },
                    operation);
}

// Throws ConfigError for text that is not UTF-8, which JSON cannot hold.
void check_text(const std::string& what, const std::string& text) {
  if (!is_utf8(text))
    throw ConfigError(what + " is " + detail::shown(text) + ", which is not UTF-8");
}

void check_path(const std::string& path) {
  check_text("the path in the repository", path);
  detail::check_safe("the path in the repository", path);
  const auto parts = split(path, '/');
  const bool is_inner = std::ranges::none_of(parts, [](const std::string& part) {
    return part == "." || part == ".git" || part == ".cache";
  });
  const bool is_folder = path.ends_with('/');
  const auto empties = std::ranges::count(parts, "");
  if (is_inner && empties == (is_folder ? 1 : 0)) return;
  throw ConfigError("the path in the repository is " + detail::shown(path) +
                    "; allowed are names between single '/' that are not '.', '.git' or '.cache'");
}

void check_operations(const std::vector<CommitOperation>& operations) {
  std::set<std::string> paths;
  for (const CommitOperation& operation : operations) {
    const std::string& path = path_of(operation);
    check_path(path);
    if (std::holds_alternative<CommitOperationAdd>(operation) && path.ends_with('/'))
      throw ConfigError("a file is to be at " + detail::shown(path) + ", which names a folder");
    if (!paths.insert(path).second)
      throw ConfigError("the commit has two operations on " + detail::shown(path) +
                        "; allowed is one a path");
  }
}

void check_commit(const CommitOptions& commit) {
  if (trim(commit.commit_message).empty())
    throw ConfigError("the commit message is empty: say in a line what changes");
  check_text("the commit message", commit.commit_message);
  check_text("the commit description", commit.commit_description);
  const auto is_digit = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
  };
  const std::string& parent = commit.parent_commit;
  if (parent.empty() ||
      (parent.size() >= 5 && parent.size() <= 40 && std::ranges::all_of(parent, is_digit)))
    return;
  throw ConfigError("the parent commit is " + detail::shown(parent) +
                    "; allowed are 5 to 40 hexadecimal digits");
}

std::string messages_in(const Answer& answer, const char* key) {
  std::vector<std::string> texts;
  for (const Answer& entry : detail::member(answer, key)) {
    const std::string message = text_in(entry, "message");
    if (!message.empty()) texts.push_back(detail::safe_text(message));
  }
  return join(texts, "; ");
}

// Checks the card before anything is sent, rather than after an hour of uploading.
void validate_card(HubClient& client, const HubSubject& subject, const CommitFile& card) {
  const Json request = {{"content", detail::text_of(card)},
                        {"repoType", detail::word_of(subject.type)}};
  // An answer that refuses has the reasons in its body.
  try {
    const Answer answer = detail::parse_json(
        client.post(client.endpoint() + "/api/validate-yaml", detail::json_text(request), {}));
    const std::string warnings = messages_in(answer, "warnings");
    if (!warnings.empty())
      get_logger("accelerate.hub").warning("the metadata of README.md: " + warnings);
  } catch (const HubError& error) {
    if (error.reason() != HubReason::bad_request) throw;
    const Answer answer = detail::parse_json(error.answer().body);
    const std::string faults = messages_in(answer, "errors");
    throw ConfigError("the hub refuses the metadata of README.md: " +
                      (faults.empty() ? std::string(error.what()) : faults) +
                      ". Fix the text between its two '---' lines");
  }
}

bool is_deletion(const CommitOperation& operation) {
  return std::holds_alternative<CommitOperationDelete>(operation);
}

bool is_deleted(const std::string& path, const std::vector<CommitOperation>& operations) {
  return std::ranges::any_of(operations, [&](const CommitOperation& operation) {
    const auto* deletion = std::get_if<CommitOperationDelete>(&operation);
    if (deletion == nullptr) return false;
    const std::string& gone = deletion->path_in_repo;
    return path == gone || (gone.ends_with('/') && path.starts_with(gone));
  });
}

Json line_of(const CommitFile& file) {
  if (file.is_large) {
    return {
        {"key", "lfsFile"},
        {"value",
         {{"path", file.path}, {"algo", "sha256"}, {"oid", file.oid}, {"size", file.size_bytes}}}};
  }
  return {{"key", "file"},
          {"value",
           {{"content", detail::to_base64(detail::content_of(file))},
            {"path", file.path},
            {"encoding", "base64"}}}};
}

Json line_of(const CommitOperationDelete& deletion) {
  const bool is_folder = deletion.path_in_repo.ends_with('/');
  return {{"key", is_folder ? "deletedFolder" : "deletedFile"},
          {"value", {{"path", deletion.path_in_repo}}}};
}

// Returns the URL at `key`; "" if there is none. Callers print it, so bytes that no URL may have
// are escaped.
std::string url_in(const Answer& answer, const char* key) {
  const std::string text = text_in(answer, key);
  return detail::origin_of(text) ? detail::url_escape(text, ":/?#[]@!$&'()*+,;=%") : "";
}

// The hub has answered, but not with a commit. To send the commit again could make it twice.
class NoCommitNamed : public NetworkError {
 public:
  using NetworkError::NetworkError;
};

// Makes one commit.
class Commit {
 public:
  Commit(HubClient& client, HubSubject subject, const std::vector<CommitOperation>& operations,
         const CommitOptions& options)
      : client_(client),
        subject_(std::move(subject)),
        operations_(operations),
        options_(options),
        files_(detail::files_of(operations)) {
    for (CommitFile& file : files_) file.is_deleted = is_deleted(file.path, operations);
  }

  CommitInfo make();

 private:
  void prepare();
  [[nodiscard]] bool changes_anything() const;
  [[nodiscard]] std::string lines() const;
  [[nodiscard]] std::string url_of(const std::string& commit) const;
  CommitInfo newest();
  CommitInfo send();
  bool was_made();

  HubClient& client_;
  HubSubject subject_;
  const std::vector<CommitOperation>& operations_;
  const CommitOptions& options_;
  std::vector<CommitFile> files_;
};

void Commit::prepare() {
  const auto card = std::ranges::find(files_, "README.md", &CommitFile::path);
  if (card != files_.end()) validate_card(client_, subject_, *card);
  if (!files_.empty()) detail::ask_how_to_send(client_, subject_, options_.create_pr, files_);
}

bool Commit::changes_anything() const {
  return std::ranges::any_of(operations_, is_deletion) ||
         std::ranges::any_of(files_, &CommitFile::is_wanted);
}

std::string Commit::lines() const {
  Json header = {{"summary", options_.commit_message},
                 {"description", options_.commit_description}};
  if (!options_.parent_commit.empty()) header["parentCommit"] = options_.parent_commit;
  std::string lines = detail::json_text(Json{{"key", "header"}, {"value", header}}) + "\n";
  auto file = files_.begin();
  for (const CommitOperation& operation : operations_) {
    if (const auto* deletion = std::get_if<CommitOperationDelete>(&operation)) {
      lines += detail::json_text(line_of(*deletion)) + "\n";
    } else if ((file++)->is_wanted()) {
      lines += detail::json_text(line_of(*std::prev(file))) + "\n";
    }
  }
  return lines;
}

std::string Commit::url_of(const std::string& commit) const {
  const char* prefix = subject_.type == RepoType::dataset ? "/datasets/" : "/";
  return client_.endpoint() + prefix + subject_.id + "/commit/" + commit;
}

CommitInfo Commit::newest() {
  const std::string commit = detail::commit_at(client_, subject_);
  return {.commit_url = url_of(commit), .oid = commit, .is_new = false};
}

// Whether the branch already has everything in this commit: it was made, but its answer was lost.
bool Commit::was_made() {
  if (!files_.empty()) detail::ask_how_to_send(client_, subject_, false, files_);
  const auto is_there = [](const CommitFile& file) {
    return file.is_ignored || file.remote_oid == file.oid;
  };
  if (!std::ranges::all_of(files_, is_there)) return false;
  if (std::ranges::none_of(operations_, is_deletion)) return true;
  const auto tree = detail::list_tree(client_, subject_);
  return std::ranges::none_of(tree, [&](const RepositoryFile& file) {
    return is_deleted(file.path, operations_) &&
           std::ranges::find(files_, file.path, &CommitFile::path) == files_.end();
  });
}

CommitInfo Commit::send() {
  detail::HttpRequest request{
      .method = "POST",
      .url = client_.api_url(subject_, "/commit/" + detail::url_escape(subject_.revision)) +
             (options_.create_pr ? "?create_pr=1" : ""),
      .body = lines(),
      .content_type = "application/x-ndjson",
      .is_sent_once = true};
  const Answer answer =
      detail::parse_json(client_.send(request, {.subject = subject_, .retries = false}).body);
  CommitInfo info{.commit_url = url_in(answer, "commitUrl"),
                  .oid = text_in(answer, "commitOid"),
                  .pr_url = options_.create_pr ? url_in(answer, "pullRequestUrl") : ""};
  if (info.commit_url.empty()) info.commit_url = url_of(info.oid);
  if (!detail::is_commit(info.oid))
    throw NoCommitNamed("the answer to the commit names no commit: check at " + client_.endpoint() +
                        "/" + subject_.id + " whether it was made");
  return info;
}

CommitInfo Commit::make() {
  prepare();
  if (!changes_anything()) return newest();
  HubSubject store = subject_;
  // A pull request may be opened without the right to write, so the store must not check the right
  // to the branch.
  if (options_.create_pr) store.revision.clear();
  detail::upload_large_files(client_, store, files_);
  for (detail::Retries retries;;) {
    try {
      return send();
    } catch (const NetworkError& error) {
      // A pull request is not retried: if its answer was lost, a second one would be opened.
      if (options_.create_pr) throw;
      const bool is_answered = dynamic_cast<const NoCommitNamed*>(&error) != nullptr;
      if (!is_answered && !client_.wait_for_retry(retries, error)) throw;
      if (!was_made()) {
        if (is_answered) throw;
        continue;
      }
      CommitInfo info = newest();
      info.is_new = true;
      return info;
    }
  }
}

bool is_left_out(const std::string& below) {
  const auto parts = split(below, '/');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] == ".git") return true;
    if (parts[i] == ".cache" && i + 1 < parts.size() && parts[i + 1] == "huggingface") return true;
  }
  return false;
}

std::string prefix_of(std::string folder) {
  while (folder.ends_with('/')) folder.pop_back();
  while (folder.starts_with('/')) folder.erase(0, 1);
  return folder.empty() || folder == "." ? "" : folder + "/";
}

std::vector<CommitOperation> additions_of(const fs::path& folder, const std::string& prefix,
                                          const FilePatterns& patterns) {
  std::vector<CommitOperation> operations;
  for (const std::string& file : detail::files_below(folder)) {
    if (!is_left_out(file) && patterns.matches(file))
      operations.emplace_back(CommitOperationAdd{prefix + file, folder / file});
  }
  return operations;
}

std::vector<CommitOperation> deletions_of(HubClient& client, const HubSubject& subject,
                                          const std::string& prefix,
                                          const std::vector<std::string>& patterns) {
  std::vector<CommitOperation> operations;
  if (patterns.empty()) return operations;
  const FilePatterns gone{.allow = patterns};
  for (const RepositoryFile& file : detail::list_tree(client, subject)) {
    if (!file.path.starts_with(prefix) || file.path == ".gitattributes") continue;
    if (gone.matches(std::string_view(file.path).substr(prefix.size())))
      operations.emplace_back(CommitOperationDelete{file.path});
  }
  return operations;
}

CommitInfo commit_by(HubClient& client, const HubSubject& subject,
                     const std::vector<CommitOperation>& operations, const CommitOptions& options) {
  check_commit(options);
  check_operations(operations);
  return Commit(client, subject, operations, options).make();
}

CommitOptions with_message(CommitOptions commit, const std::string& message) {
  if (commit.commit_message.empty()) commit.commit_message = message;
  return commit;
}

}  // namespace

std::string create_repo(const std::string& repo_id, const HubOptions& options,
                        const CreateRepoOptions& create) {
  HubSubject subject = detail::checked_subject(repo_id, options);
  HubClient client(options);
  const auto slash = repo_id.find('/');
  const bool has_owner = slash != std::string::npos;
  Json request = {{"name", has_owner ? repo_id.substr(slash + 1) : repo_id},
                  {"organization", has_owner ? Json(repo_id.substr(0, slash)) : Json()}};
  if (create.is_private) request["visibility"] = *create.is_private ? "private" : "public";
  request["type"] = detail::word_of(options.type);
  const std::string there =
      client.endpoint() + (options.type == RepoType::dataset ? "/datasets/" : "/") + repo_id;
  try {
    const Answer answer = detail::parse_json(
        client.post(client.endpoint() + "/api/repos/create", detail::json_text(request), subject));
    const std::string url = url_in(answer, "url");
    return url.empty() ? there : url;
  } catch (const HubError& error) {
    if (!create.exist_ok) throw;
    if (error.reason() == HubReason::conflict) return there;
    // A user without the right to create it may still write to it, if it exists.
    if (error.status() < 401 || error.status() > 403) throw;
    try {
      (void)client.get(client.api_url(subject), subject);
      return there;
    } catch (const NetworkError&) {  // The first refusal says more.
    }
    throw;
  }
}

CommitInfo create_commit(const std::string& repo_id, const std::vector<CommitOperation>& operations,
                         const HubOptions& options, const CommitOptions& commit) {
  const HubSubject subject = detail::checked_subject(repo_id, options);
  HubClient client(options);
  return commit_by(client, subject, operations, commit);
}

CommitInfo upload_file(const std::string& repo_id, const CommitOperationAdd& file,
                       const HubOptions& options, const CommitOptions& commit) {
  return create_commit(repo_id, std::vector<CommitOperation>{file}, options,
                       with_message(commit, "Upload " + file.path_in_repo));
}

CommitInfo upload_folder(const std::string& repo_id, const fs::path& folder,
                         const HubOptions& options, const UploadFolderOptions& upload) {
  const HubSubject subject = detail::checked_subject(repo_id, options);
  const std::string prefix = prefix_of(upload.path_in_repo);
  auto operations = additions_of(folder, prefix, upload.patterns);
  if (operations.empty()) {
    get_logger("accelerate.hub")
        .warning("no file of " + folder.string() +
                 " is to be uploaded: it is empty, or the patterns leave all out");
  }
  HubClient client(options);
  auto deletions = deletions_of(client, subject, prefix, upload.delete_patterns);
  std::erase_if(deletions, [&](const CommitOperation& deletion) {
    return std::ranges::any_of(operations, [&](const CommitOperation& addition) {
      return path_of(addition) == path_of(deletion);
    });
  });
  operations.insert(operations.begin(), deletions.begin(), deletions.end());
  return commit_by(client, subject, operations, with_message(upload.commit, "Upload folder"));
}

}  // namespace accelerate
