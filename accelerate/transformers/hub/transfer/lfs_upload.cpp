#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/hub/transfer/commit_files.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "accelerate/base/parallel_work.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"
#include "accelerate/transformers/hub/transfer/transfer_progress.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kObjectsOfRequest = 256;
constexpr std::uint64_t kBytesOfRequest = std::uint64_t{64} << 30;  // Thousands of parts' URLs.
constexpr std::size_t kMostOfBatch = 16U << 20;
constexpr const char* kLfsType = "application/vnd.git-lfs+json";

[[noreturn]] void throw_malformed_batch(const std::string& what) {
  throw NetworkError("the answer of the store of large files " + what +
                     ": is HF_ENDPOINT a hub of Hugging Face?");
}

// The destination of a file, as the store names it.
struct Place {
  const CommitFile* file = nullptr;
  std::string url;
  std::string verify_url;                          // "" if no check follows.
  std::uint64_t part_bytes = 0;                    // 0 for a file that is sent in one piece.
  std::map<std::int64_t, std::string> parts = {};  // URLs by part number.
};

// Returns `url` on this endpoint. Throws NetworkError if it is not a URL, or is less safe than the
// endpoint.
std::string checked_url(const HubClient& client, const std::string& url, const CommitFile& file) {
  std::string here = client.on_this_endpoint(url);
  if (!origin_of(here))
    throw_malformed_batch("has an invalid URL for " + shown(file.path) + ", " +
                          shown_url(without_query(url)));
  client.check_encryption(here);
  return here;
}

std::optional<std::int64_t> number_in(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.is_string() ? parse_int(value.get<std::string>()) : std::nullopt;
}

bool is_part_number(const std::string& name) {
  constexpr std::size_t kMostDigits = 9;
  return !name.empty() && name.size() <= kMostDigits &&
         name.find_first_not_of("0123456789") == std::string::npos;
}

// Reads the headers of the action: "chunk_size", and a URL for each part number.
void take_parts(const HubClient& client, const Json& header, Place& place) {
  const Json chunk_size = member(header, "chunk_size");
  if (chunk_size.is_null()) return;
  for (const auto& [name, url] : header.items()) {
    if (is_part_number(name) && url.is_string())
      place.parts[*parse_int(name)] = checked_url(client, url.get<std::string>(), *place.file);
  }
  const std::uint64_t size = place.file->size_bytes;
  const std::int64_t part_bytes = number_in(chunk_size).value_or(0);
  place.part_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(part_bytes, 0));
  if (place.part_bytes > 0 &&
      (size + place.part_bytes - 1) / place.part_bytes == place.parts.size())
    return;
  throw_malformed_batch("has " + count_of(place.parts.size(), "part") + " of " +
                        shown(json_text(chunk_size)) + " bytes for a file of " +
                        std::to_string(size));
}

// Returns nullopt if the store already has the content.
std::optional<Place> place_of(const HubClient& client, const Json& object, const CommitFile& file) {
  if (object.contains("error")) {
    throw NetworkError("the store refuses " + shown(file.path) + ": " +
                       shown(text_in(member(object, "error"), "message")));
  }
  const Json actions = member(object, "actions");
  if (actions.is_null()) return std::nullopt;
  const Json upload = member(actions, "upload");
  Place place{
      .file = &file, .url = checked_url(client, text_in(upload, "href"), file), .verify_url = ""};
  if (actions.is_object() && actions.contains("verify"))
    place.verify_url = checked_url(client, text_in(actions["verify"], "href"), file);
  take_parts(client, member(upload, "header"), place);
  return place;
}

std::string batch_request(const HubSubject& subject, const std::vector<const CommitFile*>& files) {
  Json request = {{"operation", "upload"},
                  {"transfers", {"basic", "multipart"}},
                  {"objects", Json::array()},
                  {"hash_algo", "sha256"}};
  for (const CommitFile* file : files)
    request["objects"].push_back({{"oid", file->oid}, {"size", file->size_bytes}});
  if (!subject.revision.empty()) request["ref"] = {{"name", subject.revision}};
  return json_text(request);
}

std::vector<Place> ask_where(HubClient& client, const HubSubject& subject,
                             const std::vector<const CommitFile*>& files) {
  const char* prefix = subject.type == RepoType::dataset ? "/datasets/" : "/";
  const std::string url = client.endpoint() + prefix + subject.id + ".git/info/lfs/objects/batch";
  const auto response = client.send({.method = "POST",
                                     .url = url,
                                     .body = batch_request(subject, files),
                                     .content_type = kLfsType,
                                     .headers = {std::string("Accept: ") + kLfsType},
                                     .most_body_bytes = kMostOfBatch},
                                    {.subject = subject});
  const Json answer = parse_json(response.body);
  if (!answer.is_object() || !answer.contains("objects") || !answer["objects"].is_array())
    throw_malformed_batch("has no list of objects");
  std::vector<Place> places;
  for (const CommitFile* file : files) {
    const Json& objects = answer["objects"];
    const auto found = std::ranges::find_if(
        objects, [&](const Json& object) { return member(object, "oid") == file->oid; });
    if (found == objects.end()) throw_malformed_batch("says nothing of " + shown(file->path));
    if (auto place = place_of(client, *found, *file)) places.push_back(std::move(*place));
  }
  return places;
}

// Returns each content once, even if it is at several paths.
std::vector<const CommitFile*> wanted_of(const std::vector<CommitFile>& files) {
  std::vector<const CommitFile*> wanted;
  for (const CommitFile& file : files) {
    if (!file.is_large || !file.is_wanted()) continue;
    const bool is_there = std::ranges::any_of(
        wanted, [&](const CommitFile* other) { return other->oid == file.oid; });
    if (!is_there) wanted.push_back(&file);
  }
  return wanted;
}

// Returns the end of the files, from `from`, that one request asks about.
template <typename Iterator>
Iterator end_of_request(Iterator from, Iterator end) {
  std::uint64_t bytes = 0;
  auto at = from;
  while (at != end && at - from < static_cast<std::ptrdiff_t>(kObjectsOfRequest) &&
         (at == from || bytes + (*at)->size_bytes <= kBytesOfRequest))
    bytes += (*at++)->size_bytes;
  return at;
}

class Sender {
 public:
  Sender(HubClient& client, const Place& place)
      : client_(client),
        place_(place),
        progress_(place.file->path, place.file->size_bytes, client.options()) {}

  void send() {
    if (place_.part_bytes == 0) {
      put(place_.url, 0, place_.file->size_bytes);
    } else {
      send_parts();
    }
    check_unchanged(*place_.file);
    if (!place_.verify_url.empty()) verify();
  }

 private:
  // Returns the ETag that the store gives to the piece.
  std::string put(const std::string& url, std::uint64_t offset, std::uint64_t size) {
    HttpRequest request{.method = "PUT", .url = url, .content_type = ""};
    if (const auto* path = std::get_if<std::filesystem::path>(&place_.file->operation->content)) {
      request.file = HttpFile{*path, offset, size};
    } else {
      request.body = std::get<std::string>(place_.file->operation->content).substr(offset, size);
    }
    std::uint64_t sent = 0;
    request.sent = [&](std::uint64_t bytes) {
      sent += bytes;
      progress_.add(static_cast<std::int64_t>(bytes));
    };
    for (Retries retries;;) {
      try {
        const auto response = client_.send(request, {.retries = false});
        if (!request.file) progress_.add(static_cast<std::int64_t>(size));
        return response.header("etag").value_or("");
      } catch (const NetworkError& error) {
        progress_.add(-static_cast<std::int64_t>(sent));
        sent = 0;
        if (!client_.wait_for_retry(retries, error)) throw;
      }
    }
  }

  void send_parts() {
    Json done = {{"oid", place_.file->oid}, {"parts", Json::array()}};
    std::uint64_t offset = 0;
    std::int64_t number = 0;
    for (const auto& [unused, url] : place_.parts) {
      const std::uint64_t size = std::min(place_.part_bytes, place_.file->size_bytes - offset);
      const std::string etag = put(url, offset, size);
      if (etag.empty() || !is_utf8(etag))
        throw_malformed_batch("gives part " + std::to_string(number + 1) + " no ETag");
      done["parts"].push_back({{"partNumber", ++number}, {"etag", etag}});
      offset += size;
    }
    client_.send({.method = "POST",
                  .url = place_.url,
                  .body = json_text(done),
                  .content_type = kLfsType,
                  .headers = {std::string("Accept: ") + kLfsType}});
  }

  void verify() {
    const Json request = {{"oid", place_.file->oid}, {"size", place_.file->size_bytes}};
    client_.post(place_.verify_url, json_text(request), {});
  }

  HubClient& client_;
  const Place& place_;
  TransferProgress progress_;
};

void send_file(HubClient& client, const HubSubject& subject, const Place& place) {
  try {
    Sender(client, place).send();
  } catch (const NetworkError&) {
    throw_with_context<NetworkError>("cannot upload " + shown(place.file->path) + " to " +
                                     label_of(subject.id, subject.type) +
                                     ". Upload again: complete files are not sent twice");
  }
}

}  // namespace

void upload_large_files(HubClient& client, const HubSubject& subject,
                        const std::vector<CommitFile>& files) {
  const auto wanted = wanted_of(files);
  std::vector<Place> places;
  for (auto from = wanted.begin(); from != wanted.end();) {
    const auto end = end_of_request(from, wanted.end());
    std::ranges::move(ask_where(client, subject, {from, end}), std::back_inserter(places));
    from = end;
  }
  const auto workers = static_cast<std::size_t>(client.options().max_workers);
  for_each_parallel(places.size(), workers, [&](const auto& next) {
    HubClient own(client.options());  // Each thread has its own connection.
    while (const auto i = next()) send_file(own, subject, places[*i]);
  });
}

}  // namespace accelerate::detail
