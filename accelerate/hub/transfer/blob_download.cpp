#include "accelerate/hub/transfer/blob_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/hub/transfer/digest.h"

namespace accelerate::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMakeRoom =
    "Make room, for example by `accelerate hub cache`, or set HF_HUB_CACHE to a folder on another "
    "disk";

// The server sent something else than it promised. Downloading it once more may help.
class WrongContent : public NetworkError {
 public:
  using NetworkError::NetworkError;
};

// Returns null for a name that is not a checksum.
std::unique_ptr<Digest> digest_of(const BlobSource& source) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!std::ranges::all_of(source.etag, is_digit)) return nullptr;
  if (source.etag.size() == 64) return make_sha256();
  const bool is_git = source.etag.size() == 40 && source.size_bytes;
  return is_git ? make_git_sha1(*source.size_bytes) : nullptr;
}

std::string size_text(std::uint64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

// The incomplete file, which grows until it is whole.
class Part {
 public:
  Part(const BlobSource& source, fs::path path, const ByteProgress& progress);

  /// Existing bytes are trusted only after their checksum was computed together with the rest.
  void read_what_is_there();
  void restart();
  void append(std::string_view bytes);
  void check_whole();
  void put_at(const fs::path& blob);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool is_whole() const { return source_.size_bytes == size_; }

 private:
  void check_room() const;

  const BlobSource& source_;
  fs::path path_;
  const ByteProgress& progress_;
  Descriptor file_;
  std::uint64_t size_ = 0;
  std::unique_ptr<Digest> digest_;
};

Part::Part(const BlobSource& source, fs::path path, const ByteProgress& progress)
    : source_(source),
      path_(std::move(path)),
      progress_(progress),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)),
      digest_(digest_of(source)) {
  if (!file_.valid()) throw FileError("write", path_, errno);
  check_room();
}

void Part::check_room() const {
  struct statvfs room{};
  struct stat here{};
  if (!source_.size_bytes || ::fstatvfs(file_.get(), &room) != 0 ||
      ::fstat(file_.get(), &here) != 0)
    return;
  const std::uint64_t free_bytes = std::uint64_t{room.f_bavail} * room.f_frsize;
  const auto there = static_cast<std::uint64_t>(here.st_size);
  if (*source_.size_bytes <= there || *source_.size_bytes - there <= free_bytes) return;
  throw FileError("write", path_,
                  "it needs " + size_text(*source_.size_bytes - there) + " and the disk has " +
                      size_text(free_bytes) + ". " + kMakeRoom);
}

void Part::read_what_is_there() {
  std::vector<char> buffer(1U << 20);
  for (;;) {
    const ssize_t count =
        ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(size_));
    if (count < 0) throw FileError("read", path_, errno);
    if (count == 0) break;
    if (digest_) digest_->update({buffer.data(), static_cast<std::size_t>(count)});
    size_ += static_cast<std::uint64_t>(count);
    progress_(count);
  }
  if (source_.size_bytes && size_ > *source_.size_bytes) restart();
}

void Part::restart() {
  if (::ftruncate(file_.get(), 0) != 0) throw FileError("write", path_, errno);
  progress_(-static_cast<std::int64_t>(size_));
  size_ = 0;
  digest_ = digest_of(source_);
}

void Part::append(std::string_view bytes) {
  if (source_.size_bytes && bytes.size() > *source_.size_bytes - size_) {
    throw WrongContent("the server sends more than the " + size_text(*source_.size_bytes) +
                       " that it promised");
  }
  const int error = write_fully_at(file_.get(), static_cast<off_t>(size_), bytes);
  if (error == ENOSPC || error == EDQUOT) {
    throw FileError("write", path_,
                    "the disk is full after " + size_text(size_) +
                        (source_.size_bytes ? " of " + size_text(*source_.size_bytes) : "") + ". " +
                        kMakeRoom);
  }
  if (error != 0) throw FileError("write", path_, error);
  if (digest_) digest_->update(bytes);
  size_ += bytes.size();
  progress_(static_cast<std::int64_t>(bytes.size()));
}

void Part::check_whole() {
  if (source_.size_bytes && size_ != *source_.size_bytes) {
    throw NetworkError("the content ended after " + size_text(size_) + " of " +
                       size_text(*source_.size_bytes));
  }
  const std::string found = digest_ ? digest_->hex() : source_.etag;
  if (found == source_.etag) return;
  throw WrongContent("the content has the checksum " + found + "; promised was " + source_.etag +
                     ". Somebody between here and the hub changed it");
}

void Part::put_at(const fs::path& blob) {
  if (const int error = file_.close(); error != 0) throw FileError("write", path_, error);
  real_file_system().rename(path_, blob);
}

// Returns the offset at which an answer with status 206 begins ("bytes 100-199/200"); nullopt if it
// does not say.
std::optional<std::uint64_t> start_of(const HttpResponse& head) {
  const std::string range = head.header("content-range").value_or("");
  if (!range.starts_with("bytes ")) return std::nullopt;
  const auto start = parse_int(range.substr(6, range.find('-') - 6));
  return start && *start >= 0 ? std::optional(static_cast<std::uint64_t>(*start)) : std::nullopt;
}

// Checks where an answer begins. Called before its first piece is written.
void begin_answer(Part& part, const HttpResponse& head) {
  const std::string encoding = lower(head.header("content-encoding").value_or("identity"));
  if (encoding != "identity")
    throw NetworkError("the server compresses the content with '" + safe_text(encoding) +
                       "', which was not asked for");
  if (part.size() == 0) return;
  if (head.status == 200) {  // The server does not support ranges and starts over.
    part.restart();
  } else if (start_of(head) != part.size()) {
    throw WrongContent("the server sends a different range than requested");
  }
}

void fetch(HubClient& client, const BlobSource& source, Part& part) {
  HttpRequest request{.url = source.url, .headers = {"Accept-Encoding: identity"}};
  if (part.size() > 0)
    request.headers.push_back("Range: bytes=" + std::to_string(part.size()) + "-");
  bool has_begun = false;
  request.receive = [&](const HttpResponse& head, std::string_view piece) {
    if (!has_begun) begin_answer(part, head);
    has_begun = true;
    part.append(piece);
  };
  try {
    client.send(request, {.subject = source.subject, .retries = false});
  } catch (const HubError& error) {
    constexpr int kRangeNotSatisfiable = 416;
    if (error.status() != kRangeNotSatisfiable) throw;
    throw WrongContent(error.what());
  }
}

// Repeats fetch() until the part is whole.
void fetch_all(HubClient& client, const BlobSource& source, Part& part) {
  bool is_second = false;
  for (int tries = 1;;) {
    const std::uint64_t before = part.size();
    try {
      if (!part.is_whole()) fetch(client, source, part);
      part.check_whole();
      return;
    } catch (const WrongContent&) {
      part.restart();
      if (std::exchange(is_second, true)) throw;
    } catch (const NetworkError& error) {
      if (part.size() > before) tries = 1;  // There is progress, so the tries start over.
      if (!client.wait_for_retry(tries++, error)) throw;
    }
  }
}

}  // namespace

void download_blob(HubClient& client, const BlobSource& source, const fs::path& blob,
                   const ByteProgress& progress) {
  try {
    Part part(source, blob.string() + ".incomplete", progress);
    part.read_what_is_there();
    fetch_all(client, source, part);
    part.put_at(blob);
  } catch (const HubError&) {
    throw;
  } catch (const NetworkError&) {
    throw_with_context<NetworkError>("cannot fetch " + shown(source.subject.file) + " of " +
                                     label_of(source.subject.id, source.subject.type));
  }
}

}  // namespace accelerate::detail
