// A file system in memory that fails, or loses power, at a chosen step, and can tell every state
// its disk may then be in. It is as unkind as POSIX allows: data that was not synced may be lost,
// whole or from the middle on; names that were not synced may be lost from any of them on.
#pragma once

#include <cerrno>
#include <exception>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "accelerate/base/file_system.h"

namespace accelerate::testing {

/// Thrown at the step at which the power goes; nothing works afterwards.
struct PowerCut : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return "power cut"; }
};

/// What goes wrong. Steps are calls that change something or sync, counted from 0.
struct FaultPlan {
  std::optional<std::size_t> cut_power_at = {};  ///< Before this step.
  std::optional<std::size_t> fail_at = {};       ///< This step throws FileError(error).
  std::size_t failures = 1;                      ///< So many steps in a row do.
  int error = ENOSPC;
  bool file_sync_works = true;       ///< Else it returns and does nothing.
  bool directory_sync_works = true;  ///< Else it returns and does nothing.
};

class FaultyFileSystem final : public FileSystem {
 public:
  using Path = std::filesystem::path;
  using Contents = std::map<std::string, std::string>;  // Of all files, by path.

  explicit FaultyFileSystem(FaultPlan plan = {}) : plan_(plan) {}

  /// A file that has been on the disk for long. Its folder exists from then on.
  void put(const Path& path, const std::string& content) {
    const auto inode = std::make_shared<Inode>(Inode{content, content});
    now_[path] = durable_[path] = inode;
    directories_.insert(path.parent_path());
  }
  /// Steps so far.
  [[nodiscard]] std::size_t steps() const { return step_; }
  /// What a reader sees now.
  [[nodiscard]] Contents visible() const { return contents(now_, Kept::all); }

  /// Every state in which the disk may be found if the power goes (or went) now.
  [[nodiscard]] std::vector<Contents> after_power_cut() const {
    std::vector<Contents> states;
    for (std::size_t applied = 0; applied <= pending_.size(); ++applied) {
      Names names = durable_;
      for (std::size_t i = 0; i < applied; ++i) apply(pending_[i], names);
      for (const Kept kept : {Kept::synced, Kept::half, Kept::all}) {
        states.push_back(contents(names, kept));
      }
    }
    return states;
  }

  std::unique_ptr<WritableFile> create(const Path& path) override {
    step("create", path);
    if (now_.contains(path)) throw FileError("create", path, EEXIST);
    need_directory("create", path.parent_path());
    const auto inode = std::make_shared<Inode>();
    change({Change::link, path, path, inode});
    return std::make_unique<File>(*this, path, inode);
  }
  std::unique_ptr<WritableFile> append(const Path& path, std::uint64_t keep_bytes) override {
    step("open", path);
    need_directory("open", path.parent_path());
    if (!now_.contains(path)) change({Change::link, path, path, std::make_shared<Inode>()});
    const auto inode = now_.at(path);
    if (keep_bytes < inode->content.size()) inode->content.resize(keep_bytes);
    return std::make_unique<File>(*this, path, inode);
  }
  std::shared_ptr<const FileContent> map(const Path& path) override {
    struct Content final : FileContent {
      explicit Content(std::string text) : text(std::move(text)) {}
      [[nodiscard]] std::span<const std::byte> bytes() const override {
        return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
      }
      std::string text;
    };
    return std::make_shared<const Content>(read(path, ~std::size_t{0}));
  }
  std::string read(const Path& path, std::size_t max_bytes) override {
    const auto found = now_.find(path);
    if (found == now_.end()) throw FileError("open", path, ENOENT);
    if (found->second->content.size() > max_bytes) throw FileError("read", path, EFBIG);
    return found->second->content;
  }
  FileStatus status(const Path& path) override {
    if (const auto found = now_.find(path); found != now_.end()) {
      return {FileKind::file, found->second->content.size()};
    }
    return {directories_.contains(path) ? FileKind::directory : FileKind::none, 0};
  }
  void rename(const Path& from, const Path& to) override {
    step("rename", to);
    if (!now_.contains(from)) throw FileError("rename", from, ENOENT);
    change({Change::move, from, to, nullptr});
  }
  void sync_directory(const Path& directory) override {
    step("flush to disk", directory);
    need_directory("flush to disk", directory);
    if (!plan_.directory_sync_works) return;
    std::vector<Change> kept;
    for (const Change& one : pending_) {
      const bool here = one.from.parent_path() == directory || one.to.parent_path() == directory;
      here ? apply(one, durable_) : kept.push_back(one);
    }
    pending_ = std::move(kept);
  }
  bool remove(const Path& path) override {
    step("remove", path);
    if (!now_.contains(path)) return false;
    change({Change::unlink, path, path, nullptr});
    return true;
  }
  std::vector<std::string> list(const Path& directory) override {
    std::vector<std::string> names;
    for (const auto& [path, inode] : now_) {
      if (Path(path).parent_path() == directory) names.push_back(Path(path).filename());
    }
    return names;
  }
  void create_directories(const Path& directory) override { directories_.insert(directory); }

 private:
  struct Inode {
    std::string content;  // As readers see it.
    std::string synced;   // As the disk has it for certain.
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  struct Change {
    enum Kind { link, unlink, move } kind;
    Path from, to;
    std::shared_ptr<Inode> inode;
  };
  enum class Kept { synced, half, all };

  class File final : public WritableFile {
   public:
    File(FaultyFileSystem& files, Path path, std::shared_ptr<Inode> inode)
        : files_(files), path_(std::move(path)), inode_(std::move(inode)) {}
    void write(std::string_view bytes) override {
      // A write that fails may have written a part.
      inode_->content += bytes.substr(0, bytes.size() / 2);
      files_.step("write", path_);
      inode_->content += bytes.substr(bytes.size() / 2);
    }
    void sync() override {
      files_.step("flush to disk", path_);
      if (files_.plan_.file_sync_works) inode_->synced = inode_->content;
    }
    void close() override { files_.step("close", path_); }

   private:
    FaultyFileSystem& files_;
    Path path_;
    std::shared_ptr<Inode> inode_;
  };

  void step(std::string_view action, const Path& path) {
    if (plan_.cut_power_at && step_ >= *plan_.cut_power_at) throw PowerCut();
    const std::size_t now = step_++;
    if (plan_.fail_at && now >= *plan_.fail_at && now - *plan_.fail_at < plan_.failures) {
      throw FileError(action, path, plan_.error);
    }
  }
  void need_directory(std::string_view action, const Path& directory) const {
    if (!directories_.contains(directory)) throw FileError(action, directory, ENOENT);
  }
  void change(Change one) {
    apply(one, now_);
    pending_.push_back(std::move(one));
  }
  static void apply(const Change& one, Names& names) {
    if (one.kind == Change::link) names[one.to] = one.inode;
    if (one.kind == Change::unlink) names.erase(one.from);
    if (one.kind != Change::move) return;
    const auto found = names.find(one.from);
    if (found == names.end()) return;
    const auto inode = found->second;
    names.erase(found);
    names[one.to] = inode;
  }
  static Contents contents(const Names& names, Kept kept) {
    Contents result;
    for (const auto& [path, inode] : names) {
      const std::string& all = inode->content;
      const std::size_t half = std::max(inode->synced.size(), all.size() / 2);
      result[path] = kept == Kept::synced ? inode->synced
                     : kept == Kept::half ? all.substr(0, half)
                                          : all;
    }
    return result;
  }

  FaultPlan plan_;
  std::size_t step_ = 0;
  Names now_, durable_;
  std::vector<Change> pending_;  // Changes of names that no sync has made durable.
  std::set<Path> directories_;
};

}  // namespace accelerate::testing
