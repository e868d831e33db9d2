#include "accelerate/transformers/hub/download.h"

#include <algorithm>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/parallel_work.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache.h"
#include "accelerate/transformers/hub/cache/cache_files.h"
#include "accelerate/transformers/hub/cache/repository_cache.h"
#include "accelerate/transformers/hub/transfer/blob_download.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/repository_tree.h"
#include "accelerate/transformers/hub/transfer/transfer_progress.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;
using detail::BlobSource;
using detail::HubClient;
using detail::HubSubject;
using detail::RepositoryCache;

bool is_file(const fs::path& path) {
  return real_file_system().status(path).kind == FileKind::file;
}

// Whether a file exists and has its full size: a power cut may leave it shorter.
bool is_whole(const fs::path& path, std::optional<std::uint64_t> size_bytes) {
  const FileStatus status = real_file_system().status(path);
  return status.kind == FileKind::file && (!size_bytes || status.size_bytes == *size_bytes);
}

bool uses_network(const HubOptions& options) {
  return !options.local_files_only && !is_offline();
}

// Whether the cache may stand in for the hub. It may not if the hub says that a revision or file
// does not exist.
bool may_use_cache(const NetworkError& error) {
  const auto* refusal = dynamic_cast<const HubError*>(&error);
  return refusal == nullptr || (refusal->reason() != HubReason::revision_not_found &&
                                refusal->reason() != HubReason::file_not_found);
}

void warn_of_cache(const HubSubject& subject, const NetworkError& error) {
  get_logger("accelerate.hub")
      .warning("uses the cached copy of " + detail::label_of(subject.id, subject.type) +
               ", because " + error.what());
}

// The facts about a file that a HEAD request returns.
struct FileFacts {
  std::string commit;
  BlobSource source;
};

// Returns abc for `"abc"` and `W/"abc"`. Checksums get lower-case digits, as they are computed.
std::string plain_etag(std::string etag) {
  if (etag.starts_with("W/")) etag.erase(0, 2);
  std::erase(etag, '"');
  const bool is_checksum = (etag.size() == 40 || etag.size() == 64) &&
                           etag.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  return is_checksum ? lower(etag) : etag;
}

std::optional<std::uint64_t> size_in(const detail::HttpResponse& response, const char* header) {
  const auto size = parse_int(response.header(header).value_or(""));
  return size && *size >= 0 ? std::optional(static_cast<std::uint64_t>(*size)) : std::nullopt;
}

FileFacts facts_of(const detail::HttpResponse& response, const HubSubject& subject,
                   const std::string& url) {
  const bool is_elsewhere = response.status >= 300;
  const std::string linked = plain_etag(response.header("x-linked-etag").value_or(""));
  // The length of compressed content is not the file's.
  const bool is_packed =
      lower(response.header("content-encoding").value_or("identity")) != "identity";
  FileFacts facts{.commit = response.header("x-repo-commit").value_or(""),
                  .source = {.subject = subject, .url = url, .etag = "", .size_bytes = {}}};
  facts.source.etag = linked.empty() ? plain_etag(response.header("etag").value_or("")) : linked;
  facts.source.size_bytes = size_in(response, "x-linked-size");
  if (!facts.source.size_bytes && !is_elsewhere && !is_packed)
    facts.source.size_bytes = size_in(response, "content-length");
  if (!detail::is_commit(facts.commit) || facts.source.etag.empty()) {
    throw NetworkError("the answer to " + detail::safe_text(detail::without_query(url)) +
                       " has no commit or no ETag, so it did not come from a Hugging Face hub. "
                       "Check HF_ENDPOINT and the proxy");
  }
  return facts;
}

FileFacts ask_for_facts(HubClient& client, const HubSubject& subject) {
  const std::string url = client.file_url(subject);
  // If the URL leads to another host, this answer still has the facts. The signed URL on that host
  // is not kept: it could expire before an interrupted download continues.
  const auto response =
      client.send({.method = "HEAD", .url = url, .headers = {"Accept-Encoding: identity"}},
                  {.subject = subject, .redirects = detail::Redirects::own_host});
  FileFacts facts = facts_of(response, subject, url);
  // The branch may move meanwhile, so the file is fetched at the commit of these facts.
  facts.source.subject.revision = facts.commit;
  facts.source.url = client.file_url(facts.source.subject);
  return facts;
}

// Downloads a content unless it is in the cache, and makes it a file of the commit.
void fetch_file(HubClient& client, const RepositoryCache& cache, const BlobSource& source,
                const std::string& commit) {
  const fs::path blob = cache.blob(source.etag);
  cache.make_folders();
  const auto lock = cache.lock(source.etag);
  if (client.options().force_download || !is_whole(blob, source.size_bytes)) {
    detail::TransferProgress progress(source.subject.file, source.size_bytes, client.options());
    detail::download_blob(client, source, blob, [&](std::int64_t bytes) { progress.add(bytes); });
  }
  cache.link(source.etag, commit, source.subject.file);
}

FileFacts facts_at(const HubSubject& subject, const RepositoryCache& cache,
                   const HubOptions& options) {
  HubClient client(options);
  try {
    return ask_for_facts(client, subject);
  } catch (const HubError& error) {
    const std::string& commit = error.answer().commit;
    if (error.reason() == HubReason::file_not_found && !commit.empty())
      cache.note_absence(commit, subject.file);
    throw;
  }
}

fs::path download_file(const HubSubject& subject, const RepositoryCache& cache,
                       const HubOptions& options, const FileFacts& facts) {
  fs::path pointer = cache.pointer(facts.commit, subject.file);
  if (options.force_download || !is_whole(pointer, facts.source.size_bytes)) {
    HubClient client(options);
    fetch_file(client, cache, facts.source, facts.commit);
  }
  cache.set_commit(subject.revision, facts.commit);
  return pointer;
}

// Returns the file in the cache. Throws FileError if the cache lacks it.
fs::path cached_file(const HubSubject& subject, const HubOptions& options) {
  HubOptions cached = options;
  cached.cache_dir = detail::cache_folder_of(options);
  if (const auto found = detail::find_cached_file(subject.id, subject.file, cached)) return *found;
  throw FileError("find", detail::cached_snapshot(subject.id, cached) / subject.file,
                  "the cache lacks this file of " + detail::label_of(subject.id, subject.type) +
                      ". Download it with `accelerate hub download " +
                      detail::command_words(subject.id, options) + " " + shell_word(subject.file) +
                      "`",
                  error_name::kNotInCache);
}

std::vector<RepositoryFile> wanted_of(std::vector<RepositoryFile> files,
                                      const FilePatterns& patterns) {
  std::erase_if(files, [&](const RepositoryFile& file) { return !patterns.matches(file.path); });
  return files;
}

std::vector<RepositoryFile> files_at(HubClient& client, const RepositoryCache& cache,
                                     const HubSubject& at_commit) {
  if (auto files = detail::cached_tree(cache, at_commit.revision)) return *files;
  auto files = detail::list_tree(client, at_commit);
  detail::cache_tree(cache, at_commit.revision, files);
  return files;
}

BlobSource source_of(const HubClient& client, HubSubject subject, const RepositoryFile& file) {
  subject.file = file.path;
  return {.subject = subject,
          .url = client.file_url(subject),
          .etag = file.etag(),
          .size_bytes = file.size_bytes};
}

void fetch_files(const HubOptions& options, const RepositoryCache& cache,
                 const HubSubject& at_commit, const std::vector<RepositoryFile>& files) {
  const auto threads = static_cast<std::size_t>(options.max_workers);
  detail::for_each_parallel(files.size(), threads, [&](const auto& next) {
    HubClient client(options);  // Each thread has its own connection.
    while (const auto i = next())
      fetch_file(client, cache, source_of(client, at_commit, files[*i]), at_commit.revision);
  });
}

// The files of a repository at a commit.
struct Tree {
  HubSubject at_commit;
  std::vector<RepositoryFile> files;
};

Tree tree_at(const HubSubject& subject, const RepositoryCache& cache, const HubOptions& options) {
  HubClient client(options);
  Tree tree{.at_commit = subject, .files = {}};
  if (!detail::is_commit(subject.revision))
    tree.at_commit.revision = detail::commit_at(client, subject);
  tree.files = files_at(client, cache, tree.at_commit);
  return tree;
}

fs::path download_snapshot(const HubSubject& subject, const RepositoryCache& cache,
                           const HubOptions& options, Tree missing) {
  const std::string commit = missing.at_commit.revision;
  if (!options.force_download) {
    std::erase_if(missing.files, [&](const RepositoryFile& file) {
      return is_whole(cache.pointer(commit, file.path), file.size_bytes);
    });
  }
  fetch_files(options, cache, missing.at_commit, missing.files);
  fs::path snapshot = cache.snapshot(commit);
  real_file_system().create_directories(snapshot);  // Even if no file matches.
  cache.set_commit(subject.revision, commit);
  return snapshot;
}

void check_complete(const HubSubject& subject, const RepositoryCache& cache,
                    const fs::path& snapshot, const FilePatterns& patterns,
                    const HubOptions& options) {
  const auto files = detail::cached_tree(cache, snapshot.filename().string());
  if (!files) return;  // It is not known which files there should be.
  std::vector<std::string> missing;
  for (const RepositoryFile& file : wanted_of(*files, patterns)) {
    if (!is_file(snapshot / file.path)) missing.push_back(file.path);
  }
  if (missing.empty()) return;
  throw FileError("find", snapshot / missing.front(),
                  "the cache lacks " + count_of(missing.size(), "file") + " of " +
                      detail::label_of(subject.id, subject.type) + ": " + detail::shown(missing) +
                      ". Download them with `accelerate hub download " +
                      detail::command_words(subject.id, options) + "`",
                  error_name::kNotInCache);
}

template <typename Ask, typename Fetch>
struct OnlineParts {
  Ask ask;
  Fetch fetch;
};

// Returns what `cached` returns; "" if the cache has nothing.
template <typename Cached>
fs::path found_in_cache(const Cached& cached) {
  try {
    return cached();
  } catch (const FileError&) {
    return {};
  }
}

// Asks the hub with `ask`, then passes the answer to `fetch`. Uses the cache if there is no network
// or the hub does not answer. With a copy in the cache, the hub is asked only once, without
// retries.
template <typename Ask, typename Fetch, typename Cached>
fs::path online_or_cached(const HubSubject& subject, const HubOptions& options,
                          const OnlineParts<Ask, Fetch>& online, const Cached& cached) {
  if (!uses_network(options)) return cached();
  const bool is_there = !options.force_download && !found_in_cache(cached).empty();
  HubOptions asking = options;
  if (is_there) asking.max_retries = 0;
  std::optional<decltype(online.ask(asking))> answer;
  try {
    answer = online.ask(asking);
  } catch (const NetworkError& error) {
    if (is_there && may_use_cache(error)) {
      warn_of_cache(subject, error);
      return cached();
    }
    if (options.force_download || dynamic_cast<const HubError*>(&error) != nullptr) throw;
    throw_with_context<NetworkError>(
        detail::label_of(subject.id, subject.type) +
        " is not in the cache, and the hub cannot be asked for it. Check the network and the "
        "proxy, or pass a folder that holds it");
  }
  return online.fetch(*answer);
}

// `check` may throw if the cached snapshot is not good enough.
template <typename Check>
fs::path online_or_cached_snapshot(const std::string& repo_id, const HubOptions& options,
                                   const FilePatterns& patterns, const Check& check) {
  const HubSubject subject = detail::checked_subject(repo_id, options);
  const RepositoryCache cache(repo_id, options);
  const auto ask = [&](const HubOptions& how) { return tree_at(subject, cache, how); };
  const auto fetch = [&](const Tree& tree) {
    return download_snapshot(subject, cache, options,
                             {tree.at_commit, wanted_of(tree.files, patterns)});
  };
  return online_or_cached(subject, options, OnlineParts{ask, fetch}, [&] {
    const fs::path snapshot = detail::cached_snapshot(repo_id, options);
    check(subject, cache, snapshot);
    return snapshot;
  });
}

}  // namespace

fs::path hf_hub_download(const std::string& repo_id, const std::string& filename,
                         const HubOptions& options) {
  HubSubject subject = detail::checked_subject(repo_id, options);
  detail::check_safe("the file name", filename);
  subject.file = filename;
  const RepositoryCache cache(repo_id, options);
  if (detail::is_commit(options.revision) && !options.force_download) {
    if (fs::path known = cache.pointer(options.revision, filename); is_file(known)) return known;
  }
  const auto ask = [&](const HubOptions& how) { return facts_at(subject, cache, how); };
  const auto fetch = [&](const FileFacts& facts) {
    return download_file(subject, cache, options, facts);
  };
  return online_or_cached(subject, options, OnlineParts{ask, fetch},
                          [&] { return cached_file(subject, options); });
}

fs::path snapshot_download(const std::string& repo_id, const HubOptions& options,
                           const FilePatterns& patterns) {
  return online_or_cached_snapshot(repo_id, options, patterns, [&](const auto&... known) {
    check_complete(known..., patterns, options);
  });
}

RepositoryListing list_repo_files(const std::string& repo_id, const HubOptions& options) {
  // This pattern ignores every file, so only the list is downloaded.
  const fs::path snapshot = snapshot_download(repo_id, options, {.ignore = {"*"}});
  RepositoryListing listing{.commit = snapshot.filename().string(), .files = {}};
  const auto tree = detail::cached_tree(RepositoryCache(repo_id, options), listing.commit);
  if (!tree) {
    listing.files = detail::files_below(snapshot);
    return listing;
  }
  for (const RepositoryFile& file : *tree) listing.files.push_back(file.path);
  return listing;
}

fs::path fetch_folder(const std::string& name_or_folder, const HubOptions& options,
                      const FilePatterns& patterns) {
  if (detail::is_local(name_or_folder)) return name_or_folder;
  // The reader of the folder knows which files are needed.
  return online_or_cached_snapshot(name_or_folder, options, patterns, [](const auto&...) {});
}

std::optional<fs::path> fetch_file(const std::string& name_or_folder, const std::string& filename,
                                   const HubOptions& options) {
  if (detail::is_local(name_or_folder)) return find_file(name_or_folder, filename, options);
  try {
    return hf_hub_download(name_or_folder, filename, options);
  } catch (const HubError& error) {
    if (error.reason() != HubReason::file_not_found) throw;
    return std::nullopt;
  }
}

}  // namespace accelerate
