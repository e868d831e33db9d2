#include "accelerate/transformers/hub/transfer/blob_download.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>
#include <vector>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/transfer/digest.h"

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

// The server cannot continue where the part ends. It may still send the whole content.
class WrongRange : public NetworkError {
 public:
  using NetworkError::NetworkError;
};

constexpr std::size_t kSha256Digits = 64, kGitDigits = 40;
// The limit where nobody says how long the content is: files of Git are smaller.
constexpr std::uint64_t kMostUnannounced = 256U << 20;

bool is_checksum(const std::string& etag) {
  return is_hex(etag, kSha256Digits) || is_hex(etag, kGitDigits);
}

// Returns null for a name that is not a checksum. Git's checksum begins with the size, so the
// result is null without one, too.
std::unique_ptr<Digest> digest_of(const std::string& etag, std::optional<std::uint64_t> size) {
  if (!is_checksum(etag)) return nullptr;
  if (etag.size() == kSha256Digits) return make_sha256();
  return size ? make_git_sha1(*size) : nullptr;
}

std::string size_text(std::uint64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

std::uint64_t free_bytes_of(const Descriptor& file) {
  struct statvfs room{};
  if (::fstatvfs(file.get(), &room) != 0) return std::numeric_limits<std::uint64_t>::max();
  return std::uint64_t{room.f_bavail} * room.f_frsize;
}

// The incomplete file, which grows until it is whole.
class Part {
 public:
  Part(const BlobSource& source, fs::path path, const ByteProgress& progress);
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;
  /// Removes the file if nothing came.
  ~Part() {
    if (file_.valid() && size_ == 0) ::unlink(path_.c_str());
  }

  /// Existing bytes are trusted only after their checksum was computed together with the rest.
  void read_what_is_there();
  /// Takes the length of the whole content that an answer states. Throws WrongContent when it
  /// differs from the length that was promised.
  void promise(std::optional<std::uint64_t> size_bytes);
  void restart();
  void append(std::string_view bytes);
  void check_whole();
  void put_at(const fs::path& blob);

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] bool has_promise() const { return promised_.has_value(); }
  [[nodiscard]] bool is_whole() const { return promised_ == size_; }

 private:
  void check_room() const;
  [[nodiscard]] std::string checksum();
  template <typename Take>
  void each_piece(const Take& take) const;

  const BlobSource& source_;
  fs::path path_;
  const ByteProgress& progress_;
  Descriptor file_;
  std::uint64_t size_ = 0;
  std::optional<std::uint64_t> promised_;  // The size of the whole content.
  std::uint64_t most_bytes_;               // Allowed where nothing is promised.
  std::unique_ptr<Digest> digest_;
};

Part::Part(const BlobSource& source, fs::path path, const ByteProgress& progress)
    : source_(source),
      path_(std::move(path)),
      progress_(progress),
      file_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666)),
      promised_(source.size_bytes),
      most_bytes_(std::min(kMostUnannounced, free_bytes_of(file_) / 2)),
      digest_(digest_of(source.etag, promised_)) {
  if (!file_.valid()) throw FileError("write", path_, errno);
  check_room();
}

void Part::check_room() const {
  struct stat here{};
  if (!promised_ || ::fstat(file_.get(), &here) != 0) return;
  const std::uint64_t free_bytes = free_bytes_of(file_);
  const auto there = static_cast<std::uint64_t>(here.st_size);
  if (*promised_ <= there || *promised_ - there <= free_bytes) return;
  throw FileError("write", path_,
                  "it needs " + size_text(*promised_ - there) + " and the disk has " +
                      size_text(free_bytes) + ". " + kMakeRoom,
                  error_name::kDiskFull);
}

template <typename Take>
void Part::each_piece(const Take& take) const {
  std::vector<char> buffer(1U << 20);
  for (std::uint64_t place = 0;;) {
    const ssize_t count =
        ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(place));
    if (count < 0) throw FileError("read", path_, errno);
    if (count == 0) return;
    take(std::string_view(buffer.data(), static_cast<std::size_t>(count)));
    place += static_cast<std::uint64_t>(count);
  }
}

void Part::read_what_is_there() {
  each_piece([&](std::string_view piece) {
    if (digest_) digest_->update(piece);
    size_ += piece.size();
    progress_(static_cast<std::int64_t>(piece.size()));
  });
  if (size_ > promised_.value_or(most_bytes_)) restart();
}

void Part::promise(std::optional<std::uint64_t> size_bytes) {
  if (!size_bytes || size_bytes == promised_) return;
  if (promised_) {
    throw WrongContent(
        "the server sends " +
            std::string(*size_bytes > *promised_ ? "more than the " : "not all of the ") +
            size_text(*promised_) + " that it promised: it announces " + size_text(*size_bytes),
        error_name::kDownloadDamaged);
  }
  if (*size_bytes < size_) {
    throw WrongContent("the server announces " + size_text(*size_bytes) + " in all and has sent " +
                       size_text(size_) + " already");
  }
  promised_ = size_bytes;
  if (size_ == 0) digest_ = digest_of(source_.etag, promised_);
  check_room();
}

void Part::restart() {
  if (::ftruncate(file_.get(), 0) != 0) throw FileError("write", path_, errno);
  progress_(-static_cast<std::int64_t>(size_));
  size_ = 0;
  promised_ = source_.size_bytes;
  digest_ = digest_of(source_.etag, promised_);
}

void Part::append(std::string_view bytes) {
  if (promised_ && bytes.size() > *promised_ - size_) {
    throw WrongContent("the server sends more than the " + size_text(*promised_) +
                       " that it promised");
  }
  if (!promised_ && bytes.size() > most_bytes_ - size_) {
    restart();
    throw LastingNetworkError(
        "the server does not say how long the content is, and sends more than the " +
        size_text(most_bytes_) + " allowed then" +
        (most_bytes_ < kMostUnannounced ? " (half of what the disk has)" : "") +
        ": nothing of it is kept");
  }
  const int error = write_fully_at(file_.get(), static_cast<off_t>(size_), bytes);
  if (error == ENOSPC || error == EDQUOT) {
    throw FileError("write", path_,
                    "the disk is full after " + size_text(size_) +
                        (promised_ ? " of " + size_text(*promised_) : "") + ". " + kMakeRoom,
                    error_name::kDiskFull);
  }
  if (error != 0) throw FileError("write", path_, error);
  if (digest_) digest_->update(bytes);
  size_ += bytes.size();
  progress_(static_cast<std::int64_t>(bytes.size()));
}

std::string Part::checksum() {
  if (digest_) return digest_->hex();
  const auto digest = digest_of(source_.etag, size_);  // The size is known only now.
  each_piece([&](std::string_view piece) { digest->update(piece); });
  return digest->hex();
}

void Part::check_whole() {
  if (promised_ && size_ != *promised_) {
    throw NetworkError(
        "the content ended after " + size_text(size_) + " of " + size_text(*promised_),
        error_name::kDownloadDamaged);
  }
  if (!is_checksum(source_.etag)) return;
  const std::string found = checksum();
  if (found == source_.etag) return;
  throw WrongContent(
      "the content has the checksum " + found + "; promised was " + source_.etag +
          (promised_
               ? ". Somebody between here and the hub changed it"
               : ". The server does not say how long the content is, so it may be cut after " +
                     size_text(size_) + ". Try again, or check the proxy"),
      error_name::kDownloadDamaged);
}

void Part::put_at(const fs::path& blob) {
  if (const int error = file_.close(); error != 0) throw FileError("write", path_, error);
  real_file_system().rename(path_, blob);
}

std::optional<std::uint64_t> size_in(std::string_view text) {
  const auto size = parse_int(text);
  return size && *size >= 0 ? std::optional(static_cast<std::uint64_t>(*size)) : std::nullopt;
}

// Of an answer with the status 206, "bytes 100-199/200"; nullopt for what it does not say.
struct ContentRange {
  std::optional<std::uint64_t> start, total;
};

ContentRange range_of(const HttpResponse& head) {
  const std::string range = head.header("content-range").value_or("");
  const auto dash = range.find('-'), slash = range.find('/');
  if (!range.starts_with("bytes ") || dash == std::string::npos || slash == std::string::npos)
    return {};
  return {.start = size_in(range.substr(6, dash - 6)), .total = size_in(range.substr(slash + 1))};
}

// Returns the length of the whole content where an answer states it. A chunked answer has none.
std::optional<std::uint64_t> stated_size(const HttpResponse& head) {
  if (head.status == 206) return range_of(head).total;
  if (head.header("transfer-encoding")) return std::nullopt;
  return size_in(head.header("content-length").value_or(""));
}

// Checks what an answer has. Called before its first piece is written.
void begin_answer(Part& part, const BlobSource& source, const HttpResponse& head) {
  const std::string encoding = lower(head.header("content-encoding").value_or("identity"));
  if (encoding != "identity")
    throw LastingNetworkError("the server compresses the content with " + shown(encoding) +
                              ", which this request does not allow");
  if (head.status == 200 && part.size() > 0) {
    part.restart();  // The server does not support ranges and starts over.
  } else if (head.status == 206 && range_of(head).start != part.size()) {
    throw WrongRange("the server sends a different range than requested");
  }
  part.promise(stated_size(head));
  if (part.has_promise() || is_checksum(source.etag)) return;
  throw LastingNetworkError(
      "the server gives neither a length nor a checksum of the content, so nobody could tell "
      "whether all of it came: is HF_ENDPOINT a hub of Hugging Face?");
}

void fetch(HubClient& client, const BlobSource& source, Part& part) {
  HttpRequest request{.url = source.url, .headers = {"Accept-Encoding: identity"}};
  if (part.size() > 0)
    request.headers.push_back("Range: bytes=" + std::to_string(part.size()) + "-");
  bool has_begun = false;
  const auto begin = [&](const HttpResponse& head) {
    if (!std::exchange(has_begun, true)) begin_answer(part, source, head);
  };
  request.receive = [&](const HttpResponse& head, std::string_view piece) {
    begin(head);
    part.append(piece);
  };
  try {
    const auto answer = client.send(request, {.subject = source.subject, .retries = false});
    if (answer.status != 200 && answer.status != 206) {
      throw LastingNetworkError("the hub answered " + std::to_string(answer.status) +
                                "; allowed are 200 and 206 for the content of a file");
    }
    begin(answer);  // Even of an answer without a body.
  } catch (const HubError& error) {
    constexpr int kRangeNotSatisfiable = 416;
    if (error.status() != kRangeNotSatisfiable) throw;
    throw WrongRange(error.what());
  }
}

// Repeats fetch() until the part is whole.
void fetch_all(HubClient& client, const BlobSource& source, Part& part) {
  constexpr std::uint64_t kProgress = 1U << 20;
  bool is_second = false, has_ranges = true;
  std::uint64_t reached = part.size();
  for (Retries retries;;) {
    try {
      if (!has_ranges) part.restart();  // So that fetch() asks for no range.
      if (!part.is_whole()) fetch(client, source, part);
      part.check_whole();
      return;
    } catch (const WrongRange&) {
      if (!std::exchange(has_ranges, false)) throw;
    } catch (const WrongContent&) {
      part.restart();
      if (std::exchange(is_second, true)) throw;
    } catch (const NetworkError& error) {
      // The tries start over after progress, a byte of which a try would go on for years. What the
      // hub asked to wait counts for the whole file.
      if (part.size() >= reached + kProgress) {
        reached = part.size();
        retries.made = 0;
      }
      if (!client.wait_for_retry(retries, error)) throw;
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
