#include "accelerate/transformers/hub/push.h"

#include <algorithm>

#include "accelerate/base/file_system.h"
#include "accelerate/base/temporary_folder.h"
#include "accelerate/transformers/hub/account.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/repository_tree.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

bool has_card(const std::string& id, const HubOptions& options) {
  detail::HubClient client(options);
  const auto files =
      detail::list_tree(client, {.id = id, .type = options.type, .revision = options.revision});
  return std::ranges::any_of(files,
                             [](const RepositoryFile& file) { return file.path == "README.md"; });
}

}  // namespace

std::string owned_repo_id(const std::string& repo_id, const HubOptions& options) {
  detail::check_repo_id(repo_id);
  return repo_id.find('/') != std::string::npos ? repo_id : whoami(options).name + "/" + repo_id;
}

CommitInfo detail::push(const std::string& repo_id, const Push& push,
                        const PushToHubOptions& options) {
  // Steps that may be refused come first, steps that take time afterwards.
  const std::string id = owned_repo_id(repo_id, options.hub);
  create_repo(id, options.hub, {.is_private = options.is_private, .exist_ok = true});
  const TemporaryFolder folder("push");
  push.write(folder.path());
  const fs::path card = folder.path() / "README.md";
  if (!push.card.empty() && !fs::exists(card) && !has_card(id, options.hub))
    write_file_atomically(real_file_system(), card, push.card, {.durable = false});
  CommitOptions commit = options.commit;
  if (commit.commit_message.empty()) commit.commit_message = "Upload " + push.what;
  return upload_folder(id, folder.path(), options.hub,
                       {.delete_patterns = push.replaces, .commit = commit});
}

}  // namespace accelerate
