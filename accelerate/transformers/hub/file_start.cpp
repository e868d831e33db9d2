#include "accelerate/transformers/hub/file_start.h"

#include <fstream>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/repository_cache.h"
#include "accelerate/transformers/hub/hub_error.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

// Returns the file in the cache; "" if it is not there.
fs::path cached_file(const std::string& id, const std::string& name, const HubOptions& options) {
  const detail::RepositoryCache cache(id, options);
  const auto commit = cache.known_commit(options.revision);
  if (!commit) return {};
  const fs::path path = cache.pointer(*commit, name);
  return real_file_system().status(path).kind == FileKind::file ? path : fs::path();
}

std::string start_of(const fs::path& path, std::size_t bytes) {
  std::ifstream in(path, std::ios::binary);
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw FileError("read", path, EIO);
  return text;
}

// Thrown to end the transfer from a server that sends more than it was asked for.
struct Enough {};

void check_start(const detail::HttpResponse& head) {
  const bool is_part = head.status == 206;
  const std::string range = head.header("content-range").value_or("");
  const std::string encoding = lower(head.header("content-encoding").value_or("identity"));
  if (is_part && !range.starts_with("bytes 0-"))
    throw detail::LastingNetworkError("the server sends the range " + detail::shown(range) +
                                      " instead of the beginning of the file");
  if (encoding != "identity")
    throw detail::LastingNetworkError("the server compresses the content with " +
                                      detail::shown(encoding) +
                                      ", which this request does not allow");
}

std::string fetched_start(detail::HubClient& client, const detail::HubSubject& subject,
                          std::size_t bytes) {
  std::string text;
  detail::HttpRequest request{.url = client.file_url(subject)};
  request.headers = {"Accept-Encoding: identity", "Range: bytes=0-" + std::to_string(bytes - 1)};
  request.receive = [&](const detail::HttpResponse& head, std::string_view piece) {
    if (text.empty()) check_start(head);
    const std::size_t room = bytes - text.size();
    text.append(piece.substr(0, room));
    // A server without ranges sends the whole file.
    if (text.size() == bytes && (head.status != 206 || piece.size() > room)) throw Enough();
  };
  try {
    (void)client.send(std::move(request), {.subject = subject, .retries = false});
  } catch (const Enough&) {
    // The beginning is there.
  }
  return text;
}

}  // namespace

std::string read_file_start(const std::string& repo_id, const std::string& filename,
                            std::size_t bytes, const HubOptions& options) {
  detail::HubSubject subject = detail::checked_subject(repo_id, options);
  subject.file = filename;
  if (const fs::path cached = cached_file(repo_id, filename, options); !cached.empty())
    return start_of(cached, bytes);
  if (options.local_files_only)
    throw FileError("open", filename, "it is not in the cache, and local_files_only is set",
                    error_name::kNotInCache);
  detail::HubClient client(options);
  for (detail::Retries retries;;) {
    try {
      return fetched_start(client, subject, bytes);
    } catch (const NetworkError& error) {
      if (!client.wait_for_retry(retries, error)) throw;
    }
  }
}

}  // namespace accelerate
