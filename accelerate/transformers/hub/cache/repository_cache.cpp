#include "accelerate/transformers/hub/cache/repository_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/transformers/hub/cache/cache.h"
#include "accelerate/transformers/hub/cache/python_paths.h"

namespace accelerate::detail {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This directory holds downloads that can be fetched again.\n";

// Members of the group may take the lock too, as in huggingface_hub.
constexpr mode_t kLockMode = 0664;

// Returns nullopt while another process holds the lock, and when the file at `path` was replaced
// before it was locked.
std::optional<Descriptor> try_lock(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kLockMode));
  if (!file.valid()) throw FileError("lock", path, errno);
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
    throw FileError("lock", path, errno);
  }
  struct stat held{};
  struct stat there{};
  const bool is_same = ::fstat(file.get(), &held) == 0 && ::stat(path.c_str(), &there) == 0 &&
                       held.st_ino == there.st_ino && held.st_dev == there.st_dev;
  return is_same ? std::optional(std::move(file)) : std::nullopt;
}

void touch(const fs::path& path, std::string_view content = "") {
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file.valid()) (void)write_fully(file.get(), content);  // A convenience: failures are ignored.
}

// Makes a relative link, "../../blobs/<etag>", so that the cache may be moved. Returns false if the
// file system has no links.
bool make_link(const fs::path& blob, const fs::path& pointer) {
  const fs::path target = blob.lexically_relative(pointer.parent_path());
  for (;;) {
    if (::symlink(target.c_str(), pointer.c_str()) == 0) return true;
    if (errno == EPERM || errno == ENOTSUP || errno == ENOSYS) return false;
    if (errno != EEXIST) throw FileError("link", pointer, errno);
    std::error_code none;
    if (fs::read_symlink(pointer, none) == target) return true;
    // It is a link to other content, as an older layout left it.
    if (::unlink(pointer.c_str()) != 0 && errno != ENOENT) throw FileError("link", pointer, errno);
  }
}

// Makes a copy that appears either completely or not at all.
void copy_whole(const fs::path& from, const fs::path& beside, const fs::path& to) {
  const fs::path copy = beside / (random_hex() + ".incomplete");
  try {
    std::error_code error;
    fs::copy_file(from, copy, error);
    if (error) throw FileError("copy", from, error.value());
    real_file_system().rename(copy, to);
  } catch (const FileError&) {
    ::unlink(copy.c_str());
    throw;
  }
}

}  // namespace

ContentLock::ContentLock(const fs::path& path) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kPatience{10};
  auto next_word = Clock::now() + kPatience;
  for (;;) {
    if (auto file = try_lock(path)) {
      file_ = std::move(*file);
      return;
    }
    if (Clock::now() > next_word) {
      get_logger("accelerate.hub")
          .info("waits for another process that fetches the same file (" + path.string() + ")");
      next_word += kPatience;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

RepositoryCache::RepositoryCache(const std::string& id, const HubOptions& options)
    : cache_(cache_folder_of(options)), folder_(cache_ / folder_name_of(id, options.type)) {
  check_repo_id(id);
}

fs::path RepositoryCache::blob(const std::string& etag) const {
  const auto is_allowed = [](char c) { return is_word_character(c) || c == '-' || c == '.'; };
  const bool is_plain = !etag.empty() && etag.size() <= 128 && etag.front() != '.' &&
                        std::ranges::all_of(etag, is_allowed) && !etag.ends_with(".incomplete");
  if (is_plain) return folder_ / "blobs" / etag;
  throw NetworkError("the server calls the content " + shown(etag) +
                     ", which cannot be a file's name: it is not a Hugging Face hub");
}

fs::path RepositoryCache::snapshot(const std::string& commit) const {
  return folder_ / "snapshots" / commit;
}

fs::path RepositoryCache::pointer(const std::string& commit, const std::string& file) const {
  check_safe("the file name", file);
  return snapshot(commit) / file;
}

std::optional<std::string> RepositoryCache::commit_of(const std::string& revision) const {
  constexpr std::size_t kMostBytes = 4096;
  check_safe("the revision", revision);
  const fs::path ref = folder_ / "refs" / revision;
  const FileStatus status = real_file_system().status(ref);
  if (status.kind != FileKind::file || status.size_bytes > kMostBytes) return std::nullopt;
  std::string commit = real_file_system().read(ref, kMostBytes);
  return is_commit(commit) ? std::optional(std::move(commit)) : std::nullopt;
}

std::optional<std::string> RepositoryCache::known_commit(const std::string& revision) const {
  return is_commit(revision) ? std::optional(revision) : commit_of(revision);
}

void RepositoryCache::make_folders() const {
  FileSystem& files = real_file_system();
  files.create_directories(folder_ / "blobs");
  files.create_directories(cache_ / ".locks" / folder_.filename());
  touch(cache_ / "CACHEDIR.TAG", kCacheTag);
}

ContentLock RepositoryCache::lock(const std::string& etag) const {
  return ContentLock(cache_ / ".locks" / folder_.filename() / (etag + ".lock"));
}

void RepositoryCache::link(const std::string& etag, const std::string& commit,
                           const std::string& file) const {
  const fs::path from = blob(etag);
  const fs::path to = pointer(commit, file);
  real_file_system().create_directories(to.parent_path());
  if (!is_on(env("HF_HUB_DISABLE_SYMLINKS")) && make_link(from, to)) return;
  copy_whole(from, folder_ / "blobs", to);
}

void RepositoryCache::set_commit(const std::string& revision, const std::string& commit) const {
  if (revision == commit || commit_of(revision) == commit) return;
  const fs::path ref = folder_ / "refs" / revision;
  // Not beside `ref`: readers of the cache take every file there for a revision.
  const fs::path sibling = folder_ / ("." + random_hex() + ".incomplete");
  real_file_system().create_directories(ref.parent_path());
  {
    const auto file = real_file_system().create(sibling);
    file->write(commit);
    file->close();
  }
  real_file_system().rename(sibling, ref);
}

void RepositoryCache::note_absence(const std::string& commit, const std::string& file) const {
  check_safe("the file name", file);
  const fs::path note = folder_ / ".no_exist" / commit / file;
  std::error_code ignored;  // A convenience for others, so failures are ignored.
  fs::create_directories(note.parent_path(), ignored);
  touch(note);
}

}  // namespace accelerate::detail
