#include "accelerate/hub/transfer/lfs_upload.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>

#include "accelerate/base/text.h"
#include "accelerate/hub/transfer/parallel_work.h"
#include "accelerate/hub/transfer/transfer_progress.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kObjectsOfRequest = 256;
constexpr const char* kLfsType = "application/vnd.git-lfs+json";

[[noreturn]] void throw_malformed_batch(const std::string& what) {
  throw NetworkError("the answer of the store of large files " + what +
                     ": is HF_ENDPOINT a hub of Hugging Face?");
}

// Where a file goes, as the store says.
struct Place {
  const CommitFile* file = nullptr;
  std::string url;
  std::string verify_url;                          // "" where nothing is asked afterwards.
  std::uint64_t part_bytes = 0;                    // 0 for a file in one piece.
  std::map<std::int64_t, std::string> parts = {};  // URLs by the number of the part.
};

std::string url_in(const Json& actions, const char* action) {
  const Json href = actions.value(action, Json::object()).value("href", Json());
  return href.is_string() ? href.get<std::string>() : "";
}

std::optional<std::int64_t> number_in(const Json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.is_string() ? parse_int(value.get<std::string>()) : std::nullopt;
}

// Headers of the action: "chunk_size" and a URL for each number of a part.
void take_parts(const Json& header, Place& place) {
  const auto part_bytes = number_in(header.value("chunk_size", Json()));
  if (!part_bytes) return;
  for (const auto& [name, url] : header.items()) {
    std::int64_t number = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, number);
    if (error == std::errc() && stop == end && url.is_string())
      place.parts[number] = url.get<std::string>();
  }
  const std::uint64_t size = place.file->size_bytes;
  place.part_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(*part_bytes, 0));
  if (place.part_bytes == 0 ||
      (size + place.part_bytes - 1) / place.part_bytes != place.parts.size())
    throw_malformed_batch("has " + count_of(place.parts.size(), "part") + " of " +
                          std::to_string(place.part_bytes) + " bytes for a file of " +
                          std::to_string(size));
}

// nullopt where the store has the content.
std::optional<Place> place_of(const HubClient& client, const Json& object, const CommitFile& file) {
  if (const auto error = object.find("error"); error != object.end()) {
    const Json message = error->value("message", Json("no reason given"));
    throw NetworkError("the store refuses " + shown(file.path) + ": " +
                       shown(message.is_string() ? message.get<std::string>() : message.dump()));
  }
  const auto actions = object.find("actions");
  if (actions == object.end() || !actions->is_object()) return std::nullopt;
  Place place{.file = &file,
              .url = client.on_this_endpoint(url_in(*actions, "upload")),
              .verify_url = client.on_this_endpoint(url_in(*actions, "verify"))};
  if (place.url.empty()) return std::nullopt;
  if (!origin_of(place.url))
    throw_malformed_batch("names no URL to send " + shown(file.path) + " to");
  const Json header = actions->at("upload").value("header", Json());
  if (header.is_object()) take_parts(header, place);
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
  return request.dump();
}

std::vector<Place> ask_where(HubClient& client, const HubSubject& subject,
                             const std::vector<const CommitFile*>& files) {
  const char* prefix = subject.type == RepoType::dataset ? "/datasets/" : "/";
  const std::string url = client.endpoint() + prefix + subject.id + ".git/info/lfs/objects/batch";
  const auto response = client.send({.method = "POST",
                                     .url = url,
                                     .body = batch_request(subject, files),
                                     .content_type = kLfsType,
                                     .headers = {std::string("Accept: ") + kLfsType}},
                                    {.subject = subject});
  const Json answer = Json::parse(response.body, nullptr, false);
  if (!answer.is_object() || !answer.contains("objects") || !answer["objects"].is_array())
    throw_malformed_batch("has no list of objects");
  std::vector<Place> places;
  for (const Json& object : answer["objects"]) {
    if (!object.is_object()) throw_malformed_batch("has an object that is none");
    const Json oid = object.value("oid", Json());
    const auto found =
        std::ranges::find_if(files, [&](const CommitFile* file) { return oid == file->oid; });
    if (found == files.end()) throw_malformed_batch("names an object that was not asked about");
    if (auto place = place_of(client, object, **found)) places.push_back(std::move(*place));
  }
  return places;
}

// One content, once, also where it is at several paths.
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
  // Returns the ETag that the store gives the piece.
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
    for (int tries = 1;; ++tries) {
      try {
        const auto response = client_.send(request, {.retries = false});
        if (!request.file) progress_.add(static_cast<std::int64_t>(size));
        return response.header("etag").value_or("");
      } catch (const NetworkError& error) {
        progress_.add(-static_cast<std::int64_t>(sent));
        sent = 0;
        if (!client_.wait_for_retry(tries, error)) throw;
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
      if (etag.empty())
        throw_malformed_batch("gives part " + std::to_string(number + 1) + " no ETag");
      done["parts"].push_back({{"partNumber", ++number}, {"etag", etag}});
      offset += size;
    }
    client_.send({.method = "POST",
                  .url = place_.url,
                  .body = done.dump(),
                  .content_type = kLfsType,
                  .headers = {std::string("Accept: ") + kLfsType}});
  }

  void verify() {
    const Json request = {{"oid", place_.file->oid}, {"size", place_.file->size_bytes}};
    client_.post(place_.verify_url, request.dump(), {});
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
                                     ". What was sent whole is not sent again: upload once more");
  }
}

}  // namespace

void upload_large_files(HubClient& client, const HubSubject& subject,
                        const std::vector<CommitFile>& files) {
  const auto wanted = wanted_of(files);
  std::vector<Place> places;
  for (std::size_t begin = 0; begin < wanted.size(); begin += kObjectsOfRequest) {
    const auto from = wanted.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::size_t count = std::min(kObjectsOfRequest, wanted.size() - begin);
    auto some = ask_where(client, subject, {from, from + static_cast<std::ptrdiff_t>(count)});
    std::ranges::move(some, std::back_inserter(places));
  }
  const auto workers = static_cast<std::size_t>(client.options().max_workers);
  for_each_parallel(places.size(), workers, [&](const auto& next) {
    HubClient own(client.options());  // A connection each.
    while (const auto i = next()) send_file(own, subject, places[*i]);
  });
}

}  // namespace accelerate::detail
