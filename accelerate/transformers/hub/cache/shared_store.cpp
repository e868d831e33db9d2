#include "accelerate/transformers/hub/cache/shared_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"

namespace accelerate::detail {

using namespace cache_files;
namespace fs = std::filesystem;

namespace {

fs::path manifest_of(const fs::path& content) {
  return content.string() + ".refs";
}

// Locks `content`, so that Python does not link to it while it may be removed. Source:
// `_shared_blob_lock`.
Descriptor lock_content(const fs::path& content) {
  const fs::path path = content.string() + ".lock";
  const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  Descriptor lock(::open(path.c_str(), flags, 0666));
  if (!lock.valid()) throw FileError("open", path, errno);
  struct stat status{};
  if (::fstat(lock.get(), &status) != 0) throw FileError("inspect", path, errno);
  if (!S_ISREG(status.st_mode)) throw FileError("lock", path, "it is not a regular file");
  (void)::fchmod(lock.get(), 0666);  // For other users. Fails unless the file is ours.
  while (::flock(lock.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw FileError("lock", path, errno);
  }
  return lock;
}

}  // namespace

SharedStore::SharedStore(fs::path cache) : cache_(std::move(cache)), folder_(cache_ / "blobs") {
  exists_ = is_own_folder(folder_) && is_own_file(marker()) && text_of(marker()) == "1\n";
}

// Returns nullopt if the file cannot be read or is not UTF-8.
std::optional<std::string> SharedStore::text_of(const fs::path& file) {
  constexpr std::size_t kMostBytes = 64 << 20;
  try {
    std::string text = real_file_system().read(file, kMostBytes);
    if (is_utf8(text)) return text;
  } catch (const FileError&) {  // It is then unknown who uses the content, and it stays.
  }
  return std::nullopt;
}

// Whether `path` is <cache>/<type>s--<id>/blobs/<etag>.
bool SharedStore::is_blob_of_repo(const fs::path& path) const {
  const fs::path blobs = path.parent_path();
  if (blobs.filename() != "blobs" || blobs.parent_path().parent_path() != cache_) return false;
  if (path.filename().empty()) return false;
  const std::string repo = blobs.parent_path().filename().string();
  for (const std::string_view prefix : {"datasets--", "kernels--", "models--", "spaces--"}) {
    if (repo.starts_with(prefix) && repo.size() > prefix.size()) return true;
  }
  return false;
}

// Whether `path` is <cache>/blobs/<aa>/<hash>.
bool SharedStore::is_content_path(const fs::path& path) const {
  const std::string hash = path.filename().string();
  return path.parent_path().parent_path() == folder_ && is_hex(hash, 64) &&
         path.parent_path().filename() == hash.substr(0, 2);
}

// Returns the shared content that `blob` links to; nullopt if there is none. Sets `error` if that
// cannot be found out.
std::optional<fs::path> SharedStore::link_of(const fs::path& blob, std::error_code& error) const {
  error.clear();
  if (!is_blob_of_repo(blob)) return std::nullopt;
  const auto type = fs::symlink_status(blob, error).type();
  if (type == fs::file_type::not_found) error.clear();
  if (type != fs::file_type::symlink) return std::nullopt;
  fs::path target = target_of(blob, error);
  return !error && is_content_path(target) ? std::optional(std::move(target)) : std::nullopt;
}

std::optional<fs::path> SharedStore::content_of(const fs::path& blob) const {
  std::error_code ignored;
  auto content = exists_ ? link_of(blob, ignored) : std::nullopt;
  return content && is_own_file(*content) ? content : std::nullopt;
}

Paths SharedStore::contents() const {
  Paths contents;
  if (!exists_) return contents;
  for (const auto& prefix : names_in(folder_)) {
    if (prefix.size() != 2 || !is_own_folder(folder_ / prefix)) continue;
    for (const auto& name : names_in(folder_ / prefix)) {
      const fs::path path = folder_ / prefix / name;
      if (is_content_path(path) && is_own_file(path)) contents.push_back(path);
    }
  }
  return contents;
}

// Returns the blobs of repositories that link to `content`; nullopt if they are not known.
std::optional<Paths> SharedStore::references(const fs::path& content) const {
  const auto manifest =
      is_own_file(manifest_of(content)) ? text_of(manifest_of(content)) : std::nullopt;
  if (!manifest) return std::nullopt;
  Paths blobs;
  for (std::string line : split(*manifest, '\n')) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with('/') || line.find('\0') != std::string::npos) continue;
    const fs::path blob = cache_ / line;
    std::error_code error;
    const auto target = blob == blob.lexically_normal() ? link_of(blob, error) : std::nullopt;
    if (error) return std::nullopt;
    if (target == content) blobs.push_back(blob);
  }
  return blobs;
}

std::uint64_t SharedStore::freed_bytes(const fs::path& content,
                                       const std::map<fs::path, std::uint64_t>& removed) const {
  const auto blobs = references(content);
  if (!blobs || blobs->empty()) return 0;
  const auto is_removed = [&](const fs::path& blob) { return removed.contains(blob); };
  if (!std::all_of(blobs->begin(), blobs->end(), is_removed)) return 0;
  const auto status = is_own_file(content) ? status_of(content) : std::nullopt;
  return status ? status->size_bytes : 0;
}

void SharedStore::sweep(const fs::path& content, FileSystem& files) const {
  if (!exists_ || !is_content_path(content) || !is_own_file(content)) return;
  const Descriptor lock = lock_content(content);
  const auto blobs = references(content);
  if (!blobs || !blobs->empty()) return;
  files.remove(content);
  files.remove(manifest_of(content));
}

}  // namespace accelerate::detail
