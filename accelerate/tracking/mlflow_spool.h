// The spool of a run on its way to an MLflow server: a file with what was logged, and how much of
// it has arrived. A spool outlives its process; the next run takes it over.
//
// <folder>/<id>.jsonl   the lines, see docs/formats/mlflow_spool.md
// <folder>/<id>.sent    how many of its bytes have arrived, and the run's id
// <folder>/<id>.lock    locked while a process works on the spool
//
// Metrics never wait for files: an artifact that does not arrive is set aside and sent at the end.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/file_system.h"
#include "accelerate/tracking/mlflow_client.h"

namespace accelerate::detail {

class MlflowSpool {
 public:
  using Path = std::filesystem::path;
  /// Returns the bytes of the spool from an offset on, at most `max_bytes`.
  using Reader = std::function<std::string(std::uint64_t offset, std::size_t max_bytes)>;

  /// Makes a spool of this process, which `reader` reads. `files` must outlive it.
  MlflowSpool(FileSystem& files, Path path, Reader reader);
  /// Takes over a spool that an earlier process left behind. Returns nullopt if another process
  /// works on it. Throws FileError.
  [[nodiscard]] static std::optional<MlflowSpool> take_over(FileSystem& files, const Path& path);

  /// Sends the next request. Returns false if everything has arrived. Throws MlflowUnavailable, and
  /// MlflowRefused if the run itself is refused. If a line is refused, warns and skips it.
  bool send_next(MlflowClient& client);
  /// Whether the line that ends a run has arrived.
  [[nodiscard]] bool ended() const { return ended_; }
  /// Whether that line and everything before it have arrived.
  [[nodiscard]] bool is_complete() const { return ended_ && set_aside_.empty(); }
  /// Sends everything again, to the same run, since the file was removed and has begun anew.
  void begin_again();
  [[nodiscard]] std::uint64_t sent_bytes() const { return sent_bytes_; }
  [[nodiscard]] const MlflowRemote& remote() const { return remote_; }
  [[nodiscard]] const Path& path() const { return path_; }
  /// Returns the server in the first line; "" if it cannot be read.
  [[nodiscard]] std::string server() const;
  /// Whether it holds no whole line.
  [[nodiscard]] bool is_empty() const;
  /// Removes its files. Throws FileError.
  void remove();

 private:
  struct Part {
    std::uint64_t offset = 0;
    std::size_t bytes = 0;
  };

  [[nodiscard]] std::string ahead() const;
  void deliver(MlflowClient& client, const MlflowGroup& group);
  void deliver_set_aside(MlflowClient& client);
  void advance(const MlflowGroup& group);
  void save_progress() const;
  void load_progress();
  [[nodiscard]] Path beside(const char* extension) const;

  FileSystem* files_;
  Path path_;
  Reader reader_;
  std::unique_ptr<FolderLock> lock_;  // Null where files cannot be locked.
  MlflowRemote remote_;
  std::uint64_t sent_bytes_ = 0;
  std::vector<Part> set_aside_;  // Artifacts that did not arrive.
  // The number of lines to send alone, since one of them was refused.
  int one_by_one_ = 0;
  bool ended_ = false;
};

/// Returns the spools in `folder`, sorted by name; none if the folder does not exist.
[[nodiscard]] std::vector<std::filesystem::path> spools_in(FileSystem& files,
                                                           const std::filesystem::path& folder);

}  // namespace accelerate::detail
