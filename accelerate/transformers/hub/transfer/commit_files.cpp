#include "accelerate/transformers/hub/transfer/commit_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "accelerate/base/bytes.h"
#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/hub/transfer/digest.h"

namespace accelerate::detail {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::size_t kSampleBytes = 512;
constexpr std::size_t kFilesOfRequest = 256;
constexpr std::uint64_t kMostOfSmallFile = 64U << 20;

const fs::path* path_of(const CommitFile& file) {
  return std::get_if<fs::path>(&file.operation->content);
}

const std::string& bytes_of(const CommitFile& file) {
  return std::get<std::string>(file.operation->content);
}

struct stat status_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) throw FileError("upload", path, errno);
  if (!S_ISREG(status.st_mode)) throw FileError("upload", path, "it is not a regular file");
  return status;
}

std::int64_t change_of(const struct stat& status) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec;
}

CommitFile looked_at(const CommitOperationAdd& operation) {
  CommitFile file{.operation = &operation, .path = operation.path_in_repo};
  if (const fs::path* path = path_of(file)) {
    const struct stat status = status_of(*path);
    file.size_bytes = static_cast<std::uint64_t>(status.st_size);
    file.changed_ns = change_of(status);
  } else {
    file.size_bytes = bytes_of(file).size();
  }
  return file;
}

// Passes the content to `take` in pieces of at most one MiB, until `take` returns false.
template <typename Take>
void each_piece(const CommitFile& file, const Take& take) {
  const fs::path* path = path_of(file);
  if (path == nullptr) {
    take(std::string_view(bytes_of(file)));
    return;
  }
  const Descriptor opened(::open(path->c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) throw FileError("upload", *path, errno);
  std::vector<char> buffer(1U << 20);
  for (;;) {
    const ssize_t count = ::read(opened.get(), buffer.data(), buffer.size());
    if (count < 0) throw FileError("upload", *path, errno);
    if (count == 0 || !take(std::string_view(buffer.data(), static_cast<std::size_t>(count))))
      return;
  }
}

std::string sample_of(const CommitFile& file) {
  std::string sample;
  each_piece(file, [&](std::string_view piece) {
    sample = piece.substr(0, kSampleBytes);
    return false;
  });
  return sample;
}

std::string checksum_of(const CommitFile& file) {
  const auto digest = file.is_large ? make_sha256() : make_git_sha1(file.size_bytes);
  each_piece(file, [&](std::string_view piece) {
    digest->update(piece);
    return true;
  });
  check_unchanged(file);
  return digest->hex();
}

// Returns the rules by which the commit will ignore files, if it changes .gitignore.
std::optional<std::string> ignore_rules(const std::vector<CommitFile>& files) {
  const auto found = std::ranges::find(files, ".gitignore", &CommitFile::path);
  return found == files.end() ? std::nullopt : std::optional(text_of(*found));
}

[[noreturn]] void throw_malformed(const HubSubject& subject, const std::string& what) {
  throw NetworkError("the answer about the files to upload to " +
                     label_of(subject.id, subject.type) + " " + what +
                     ": is HF_ENDPOINT a hub of Hugging Face?");
}

void take_answer(const HubSubject& subject, const std::string& answer, CommitFile* begin,
                 CommitFile* end) {
  const Json json = parse_json(answer);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array())
    throw_malformed(subject, "has no list of files");
  std::map<std::string, const Json*> by_path;
  for (const Json& entry : json["files"]) {
    if (entry.is_object() && entry.contains("path") && entry["path"].is_string())
      by_path[entry["path"].get<std::string>()] = &entry;
  }
  for (CommitFile* file = begin; file != end; ++file) {
    const auto found = by_path.find(file->path);
    if (found == by_path.end()) throw_malformed(subject, "leaves out " + shown(file->path));
    const Json& entry = *found->second;
    const Json mode = entry.value("uploadMode", Json());
    if (mode != "lfs" && mode != "regular")
      throw_malformed(subject, "does not say how to send " + shown(file->path));
    // The store accepts no empty object.
    file->is_large = mode == "lfs" && file->size_bytes > 0;
    file->is_ignored = entry.value("shouldIgnore", Json()) == true;
    const Json oid = entry.value("oid", Json());
    file->remote_oid = oid.is_string() ? oid.get<std::string>() : "";
  }
}

}  // namespace

void check_unchanged(const CommitFile& file) {
  const fs::path* path = path_of(file);
  if (path == nullptr) return;
  const struct stat status = status_of(*path);
  if (static_cast<std::uint64_t>(status.st_size) == file.size_bytes &&
      change_of(status) == file.changed_ns)
    return;
  throw FileError("upload", *path, "it changed while it was uploaded. Upload it again");
}

std::string content_of(const CommitFile& file) {
  if (file.size_bytes > kMostOfSmallFile) {
    throw NetworkError("the hub asks to send " + shown(file.path) +
                       " as a small file, and it is larger than 64 MiB: its .gitattributes must "
                       "name it for LFS");
  }
  std::string content;
  each_piece(file, [&](std::string_view piece) {
    content += piece;
    return content.size() <= kMostOfSmallFile;
  });
  check_unchanged(file);
  return content;
}

std::string text_of(const CommitFile& file) {
  std::string text = content_of(file);
  if (is_utf8(text)) return text;
  throw ConfigError(shown(file.path) + " must be UTF-8 text");
}

std::vector<CommitFile> files_of(const std::vector<CommitOperation>& operations) {
  std::vector<CommitFile> files;
  for (const CommitOperation& operation : operations) {
    if (const auto* add = std::get_if<CommitOperationAdd>(&operation))
      files.push_back(looked_at(*add));
  }
  return files;
}

void ask_how_to_send(HubClient& client, const HubSubject& subject, bool create_pr,
                     std::vector<CommitFile>& files) {
  const std::string url = client.api_url(subject, "/preupload/" + url_escape(subject.revision)) +
                          (create_pr ? "?create_pr=1" : "");
  const auto rules = ignore_rules(files);
  for (std::size_t begin = 0; begin < files.size(); begin += kFilesOfRequest) {
    const std::size_t end = std::min(files.size(), begin + kFilesOfRequest);
    Json request = {{"files", Json::array()}};
    for (std::size_t i = begin; i < end; ++i) {
      request["files"].push_back({{"path", files[i].path},
                                  {"sample", to_base64(sample_of(files[i]))},
                                  {"size", files[i].size_bytes}});
    }
    if (rules) request["gitIgnore"] = *rules;
    take_answer(subject, client.post(url, json_text(request), subject), files.data() + begin,
                files.data() + end);
  }
  for (CommitFile& file : files) {
    if (!file.is_ignored) file.oid = checksum_of(file);
  }
}

}  // namespace accelerate::detail
