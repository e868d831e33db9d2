// A file system in memory that remembers every operation, and shows afterwards every state in which
// a power cut could have left the disk after each of them:
//
//   CrashFileSystem files;
//   files.put("/data/a", "old");
//   write_file_atomically(files, "/data/a", "new");
//   files.mark("written");
//   files.for_each_crash([](const CrashPoint& point, const DiskState& disk) {
//     CrashFileSystem after(disk);   // What the next process finds.
//     …
//   });
//
// Threads: safe to use from several at once, so that ranks as threads can share one.
#pragma once

#include <cerrno>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/file_system.h"
#include "tests/support/disk_model.h"

namespace accelerate::testing {

/// Where the power went.
struct CrashPoint {
  std::size_t operations = 0;           ///< So many were carried out.
  std::string last = {};                ///< The last of them: "sync '/data/a'".
  std::vector<std::string> marks = {};  ///< Those that had been passed.

  [[nodiscard]] bool passed(const std::string& mark) const {
    return std::ranges::find(marks, mark) != marks.end();
  }
};

struct CrashOptions {
  /// As if this sync (of a file or folder, counted from 0) were missing from the program: a test of
  /// crash safety must then find a fault.
  std::optional<std::size_t> without_sync = {};
};

class CrashFileSystem : public FileSystem {
 public:
  using Path = std::filesystem::path;

  CrashFileSystem() = default;
  /// What is on the disk from the start, for certain.
  explicit CrashFileSystem(const DiskState& disk) {
    for (const std::string& folder : disk.folders) make_folders(folder);
    for (const auto& [path, content] : disk.files) put(path, content);
    start_from_here();
  }

  /// A file that has been on the disk for long, in a folder that has been there, too. Before the
  /// first operation.
  void put(const Path& path, const std::string& content) {
    const std::lock_guard guard(mutex_);
    make_folders(path.parent_path());
    const auto node = disk_.find(parts(path));
    const DiskModel::Node file = node ? *node : link(path, false);
    record({.kind = DiskOperation::resize, .node = file, .at = 0});
    record({.kind = DiskOperation::write, .node = file, .bytes = content});
    start_from_here();
  }
  /// A folder that has been there for long.
  void put_folder(const Path& path) {
    const std::lock_guard guard(mutex_);
    make_folders(path);
    start_from_here();
  }
  /// Puts a word among the operations, for CrashPoint::marks.
  void mark(std::string what) {
    const std::lock_guard guard(mutex_);
    record({.kind = DiskOperation::mark, .name = what, .what = "mark '" + what + "'"});
  }

  /// What a reader sees now.
  [[nodiscard]] DiskState now() const {
    const std::lock_guard guard(mutex_);
    return disk_.visible();
  }
  /// Syncs of files and folders so far, each as "sync '/data/a'".
  [[nodiscard]] std::vector<std::string> syncs() const {
    const std::lock_guard guard(mutex_);
    std::vector<std::string> found;
    for (const DiskOperation& one : log_) {
      if (is_sync(one)) found.push_back(one.what);
    }
    return found;
  }
  /// Every different state that a power cut before, between or after the operations may leave.
  void for_each_crash(const std::function<void(const CrashPoint&, const DiskState&)>& visit,
                      const CrashOptions& options = {}) const;

  std::unique_ptr<WritableFile> create(const Path& path) override;
  std::unique_ptr<WritableFile> append(const Path& path, std::uint64_t keep_bytes) override;
  std::shared_ptr<const FileContent> map(const Path& path) override;
  std::string read(const Path& path, std::size_t max_bytes) override {
    const std::lock_guard guard(mutex_);
    const auto node = need("open", path);
    if (disk_.is_folder(node)) throw FileError("read", path, EISDIR);
    if (disk_.content(node).size() > max_bytes) throw FileError("read", path, EFBIG);
    return disk_.content(node);
  }
  FileStatus status(const Path& path) override {
    const std::lock_guard guard(mutex_);
    const auto node = disk_.find(parts(path));
    if (!node) return {};
    if (disk_.is_folder(*node)) return {FileKind::directory, 0};
    return {FileKind::file, disk_.content(*node).size()};
  }
  void rename(const Path& from, const Path& to) override;
  void sync_directory(const Path& directory) override {
    const std::lock_guard guard(mutex_);
    const bool works = before("flush to disk", directory);
    const auto node = need_folder("flush to disk", directory);
    if (works) record(about(DiskOperation::sync_folder, node, "sync", directory));
  }
  bool remove(const Path& path) override;
  std::vector<std::string> list(const Path& directory) override {
    const std::lock_guard guard(mutex_);
    std::vector<std::string> names;
    for (const auto& [name, node] : disk_.names(need_folder("list", directory))) {
      names.push_back(name);
    }
    return names;
  }
  void create_directories(const Path& directory) override {
    const std::lock_guard guard(mutex_);
    before("create the directory", directory);
    make_folders(directory);
  }
  std::unique_ptr<FolderLock> lock(const Path& directory) override;

 protected:
  /// Called before each operation that changes or syncs something (of a write: halfway), also
  /// before closing a file. May throw; a sync for which it returns false does nothing.
  virtual bool before(std::string_view action, const Path& path) { return true; }
  /// States in which the disk may be found if the power goes now; some may be equal.
  void after_power_cut(const std::function<void(const DiskState&)>& visit) const {
    const std::lock_guard guard(mutex_);
    disk_.after_power_cut(visit);
  }

 private:
  class File;
  class Lock;

  static bool is_sync(const DiskOperation& one) {
    return one.kind == DiskOperation::sync_file || one.kind == DiskOperation::sync_folder;
  }
  static std::vector<std::string> parts(const Path& path) {
    std::vector<std::string> names;
    for (const Path& part : path) {
      if (!part.empty() && part != "/" && part != ".") names.push_back(part.native());
    }
    return names;
  }
  static DiskOperation about(DiskOperation::Kind kind, DiskModel::Node node,
                             const std::string& verb, const Path& path) {
    return {.kind = kind, .node = node, .what = verb + " '" + path.string() + "'"};
  }
  void record(DiskOperation one) {
    disk_.apply(one);
    log_.push_back(std::move(one));
  }
  void start_from_here() {
    disk_.make_durable();
    start_ = disk_;
    log_.clear();
  }
  DiskModel::Node need(std::string_view action, const Path& path) const {
    const auto node = disk_.find(parts(path));
    if (!node) throw FileError(action, path, ENOENT);
    return *node;
  }
  DiskModel::Node need_folder(std::string_view action, const Path& path) const {
    const auto node = need(action, path);
    if (!disk_.is_folder(node)) throw FileError(action, path, ENOTDIR);
    return node;
  }
  DiskModel::Node link(const Path& path, bool is_folder) {
    DiskOperation one = about(DiskOperation::link, disk_.nodes(), "make", path);
    one.is_folder = is_folder;
    one.folder = need_folder("create", path.parent_path());
    one.name = parts(path).back();
    record(one);
    return one.node;
  }
  void make_folders(const Path& directory) {
    Path path = "/";
    for (const std::string& name : parts(directory)) {
      path /= name;
      const auto node = disk_.find(parts(path));
      if (!node) link(path, true);
      if (node && !disk_.is_folder(*node)) throw FileError("create the directory", path, EEXIST);
    }
  }

  mutable std::recursive_mutex mutex_;
  DiskModel disk_, start_;  // Now, and before the first operation.
  std::vector<DiskOperation> log_;
  std::set<std::string> locked_;
};

class CrashFileSystem::File final : public WritableFile {
 public:
  File(CrashFileSystem& files, Path path, DiskModel::Node node, std::uint64_t at)
      : files_(files), path_(std::move(path)), node_(node), at_(at) {}

  void write(std::string_view bytes) override {
    put(at_, bytes);
    at_ += bytes.size();
  }
  void reserve(std::uint64_t size_bytes) override {
    const std::lock_guard guard(files_.mutex_);
    files_.before("reserve", path_);
    if (files_.disk_.content(node_).size() >= size_bytes) return;
    DiskOperation one = about(DiskOperation::resize, node_, "reserve", path_);
    one.at = size_bytes;
    files_.record(one);
  }
  void sync() override {
    const std::lock_guard guard(files_.mutex_);
    if (!files_.before("flush to disk", path_)) return;
    files_.record(about(DiskOperation::sync_file, node_, "sync", path_));
  }
  void close() override {
    const std::lock_guard guard(files_.mutex_);
    files_.before("close", path_);
  }

 private:
  // In two halves, with a chance to fail between them: a write that fails may have written a part.
  void put(std::uint64_t at, std::string_view bytes) {
    const std::lock_guard guard(files_.mutex_);
    const std::size_t half = bytes.size() / 2;
    if (half > 0) record(at, bytes.substr(0, half));
    files_.before("write", path_);
    record(at + half, bytes.substr(half));
  }
  void record(std::uint64_t at, std::string_view bytes) {
    DiskOperation one = about(DiskOperation::write, node_, "write", path_);
    one.at = at;
    one.bytes = bytes;
    files_.record(std::move(one));
  }

  CrashFileSystem& files_;
  Path path_;
  DiskModel::Node node_;
  std::uint64_t at_;
};

class CrashFileSystem::Lock final : public FolderLock {
 public:
  Lock(CrashFileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  ~Lock() override {
    const std::lock_guard guard(files_.mutex_);
    files_.locked_.erase(folder_);
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  CrashFileSystem& files_;
  std::string folder_;
};

inline std::unique_ptr<WritableFile> CrashFileSystem::create(const Path& path) {
  const std::lock_guard guard(mutex_);
  before("create", path);
  if (disk_.find(parts(path))) throw FileError("create", path, EEXIST);
  return std::make_unique<File>(*this, path, link(path, false), 0);
}

inline std::unique_ptr<WritableFile> CrashFileSystem::append(const Path& path,
                                                             std::uint64_t keep_bytes) {
  const std::lock_guard guard(mutex_);
  before("open", path);
  const auto found = disk_.find(parts(path));
  const DiskModel::Node node = found ? *found : link(path, false);
  if (keep_bytes < disk_.content(node).size()) {
    DiskOperation one = about(DiskOperation::resize, node, "shorten", path);
    one.at = keep_bytes;
    record(one);
  }
  return std::make_unique<File>(*this, path, node, disk_.content(node).size());
}

inline std::shared_ptr<const FileContent> CrashFileSystem::map(const Path& path) {
  struct Content final : FileContent {
    explicit Content(std::string text) : text(std::move(text)) {}
    [[nodiscard]] std::span<const std::byte> bytes() const override {
      return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
    }
    std::string text;
  };
  return std::make_shared<const Content>(read(path, ~std::size_t{0}));
}

inline void CrashFileSystem::rename(const Path& from, const Path& to) {
  const std::lock_guard guard(mutex_);
  before("rename", to);
  const auto node = need("rename", from);
  if (const auto there = disk_.find(parts(to)); there && disk_.is_folder(*there)) {
    if (!disk_.is_folder(node)) throw FileError("rename", to, EISDIR);
    if (!disk_.names(*there).empty()) throw FileError("rename", to, ENOTEMPTY);
  }
  DiskOperation one = about(DiskOperation::rename, node, "rename '" + from.string() + "' to", to);
  one.from_folder = need_folder("rename", from.parent_path());
  one.from_name = parts(from).back();
  one.folder = need_folder("rename", to.parent_path());
  one.name = parts(to).back();
  record(one);
}

inline bool CrashFileSystem::remove(const Path& path) {
  const std::lock_guard guard(mutex_);
  before("remove", path);
  const auto node = disk_.find(parts(path));
  if (!node) return false;
  if (disk_.is_folder(*node) && !disk_.names(*node).empty()) {
    throw FileError("remove", path, ENOTEMPTY);
  }
  DiskOperation one = about(DiskOperation::unlink, *node, "remove", path);
  one.folder = need("remove", path.parent_path());
  one.name = parts(path).back();
  record(one);
  return true;
}

inline std::unique_ptr<FolderLock> CrashFileSystem::lock(const Path& directory) {
  const std::lock_guard guard(mutex_);
  need_folder("lock", directory);
  std::string name;
  for (const std::string& part : parts(directory)) name += "/" + part;
  if (!locked_.insert(name).second) throw FolderInUse(directory, "another holder of this test");
  return std::make_unique<Lock>(*this, name);
}

inline void CrashFileSystem::for_each_crash(
    const std::function<void(const CrashPoint&, const DiskState&)>& visit,
    const CrashOptions& options) const {
  const std::lock_guard guard(mutex_);
  DiskModel disk = start_;
  CrashPoint point{.last = "nothing"};
  std::set<std::pair<std::size_t, std::size_t>> seen;  // Marks passed, and a hash of the state.
  const auto visit_new = [&](const DiskState& state) {
    std::string all;
    for (const std::string& folder : state.folders) all += folder + '\0';
    for (const auto& [path, content] : state.files) all += path + '\1' + content + '\2';
    if (seen.emplace(point.marks.size(), std::hash<std::string>()(all)).second) visit(point, state);
  };
  disk.after_power_cut(visit_new);
  std::size_t syncs = 0;
  for (const DiskOperation& one : log_) {
    if (is_sync(one) && syncs++ == options.without_sync) continue;
    disk.apply(one);
    ++point.operations;
    point.last = one.what;
    if (one.kind == DiskOperation::mark) point.marks.push_back(one.name);
    disk.after_power_cut(visit_new);
  }
}

}  // namespace accelerate::testing
