#include <cerrno>
#include <utility>

#include "accelerate/base/file_system.h"
#include "accelerate/base/hex.h"
#include "accelerate/base/lost_pages.h"

namespace accelerate {
namespace {

namespace fs = std::filesystem;

fs::path parent_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// ".model.safetensors.0123456789abcdef.tmp": hidden, named after the file that it will be, and
// never longer than the 255 bytes that file systems allow.
fs::path random_sibling(const fs::path& path) {
  constexpr std::size_t kMostOfName = 200;
  const std::string name = path.filename().native().substr(0, kMostOfName);
  return parent_of(path) / ("." + name + "." + detail::random_hex() + ".tmp");
}

fs::path checked(fs::path path) {
  if (path.has_filename() && path.filename() != "." && path.filename() != "..") return path;
  throw FileError("write", std::move(path), EISDIR);
}

}  // namespace

AtomicFile::AtomicFile(FileSystem& files, fs::path path, AtomicFileOptions options)
    : files_(files),
      path_(checked(std::move(path))),
      temporary_(random_sibling(path_)),
      file_(files.create(temporary_)),
      options_(options) {
  try {
    files_.copy_permissions(path_, temporary_);
  } catch (const FileError&) {
    discard();
    throw;
  }
}

AtomicFile::~AtomicFile() {
  if (file_) discard();
}

void AtomicFile::write(std::string_view bytes) {
  file_->write(bytes);
}

void AtomicFile::commit() {
  check_for_lost_pages();
  if (options_.durable) file_->sync();
  file_->close();
  files_.rename(temporary_, path_);
  file_.reset();  // From here on there is no sibling to remove.
  if (options_.durable && options_.durable_name) files_.sync_directory(parent_of(path_));
}

void AtomicFile::discard() noexcept {
  file_.reset();
  try {
    files_.remove(temporary_);
  } catch (const std::exception&) {
    // Another failure is under way; a left-over sibling is the lesser harm.
  }
}

void write_file_atomically(FileSystem& files, const fs::path& path, std::string_view bytes,
                           AtomicFileOptions options) {
  AtomicFile file(files, path, options);
  file.write(bytes);
  file.commit();
}

}  // namespace accelerate
