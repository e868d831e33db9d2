#include "accelerate/tracking/mlflow_spool.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "accelerate/base/folder_lock.h"
#include "accelerate/tracking/warnings.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kWindow = 2 << 20;         // Bytes read at a time.
constexpr std::size_t kLongestLine = 256 << 20;  // An image, as base64.
constexpr std::string_view kExtension = ".jsonl";
constexpr std::string_view kArtifact = R"({"kind":"artifact")";
constexpr std::string_view kEnd = R"({"kind":"end")";

std::string file_part(FileSystem& files, const std::filesystem::path& path, std::uint64_t offset,
                      std::size_t max_bytes) {
  const auto content = files.map(path);
  const auto bytes = content->bytes();
  if (offset >= bytes.size()) return "";
  return {reinterpret_cast<const char*>(bytes.data()) + offset,
          std::min<std::size_t>(bytes.size() - offset, max_bytes)};
}

void warn_refused(const MlflowRefused& error) {
  warn("the MLflow server refused a part of what was logged, which is left out: " +
       std::string(error.what()));
}

std::unique_ptr<FolderLock> try_lock(const std::filesystem::path& spool,
                                     const std::filesystem::path& lock) {
  try {
    return lock_file(spool, lock);
  } catch (const FileError&) {
    return nullptr;
  }
}

}  // namespace

// Without a lock, as on some network file systems, another run may send the spool as well.
MlflowSpool::MlflowSpool(FileSystem& files, Path path, Reader reader)
    : files_(&files),
      path_(std::move(path)),
      reader_(std::move(reader)),
      lock_(try_lock(path_, beside(".lock"))) {}

std::optional<MlflowSpool> MlflowSpool::take_over(FileSystem& files, const Path& path) {
  MlflowSpool spool(files, path, [&files, path](std::uint64_t offset, std::size_t max_bytes) {
    return file_part(files, path, offset, max_bytes);
  });
  if (!spool.lock_) return std::nullopt;
  spool.load_progress();
  return spool;
}

MlflowSpool::Path MlflowSpool::beside(const char* extension) const {
  Path other = path_;
  return other.replace_extension(extension);
}

std::string MlflowSpool::ahead() const {
  std::string text = reader_(sent_bytes_, kWindow);
  const bool is_cut = text.size() == kWindow && text.find('\n') == std::string::npos;
  return is_cut ? reader_(sent_bytes_, kLongestLine) : text;
}

std::string MlflowSpool::server() const {
  const std::string text = reader_(0, kWindow);
  const Json entry = Json::parse(text.substr(0, text.find('\n')), nullptr, false);
  return entry.is_object() && entry.contains("server") && entry["server"].is_string()
             ? entry["server"].get<std::string>()
             : "";
}

bool MlflowSpool::is_empty() const {
  return reader_(0, kWindow).find('\n') == std::string::npos;
}

void MlflowSpool::begin_again() {
  sent_bytes_ = 0;
  one_by_one_ = 0;
  ended_ = false;
  set_aside_.clear();
}

bool MlflowSpool::send_next(MlflowClient& client) {
  const MlflowGroup group = next_group(ahead(), one_by_one_ > 0);
  if (group.bytes > 0) {
    deliver(client, group);
  } else if (!set_aside_.empty()) {
    deliver_set_aside(client);
  } else {
    return false;
  }
  return true;
}

void MlflowSpool::deliver(MlflowClient& client, const MlflowGroup& group) {
  try {
    client.deliver(group.line, remote_);
  } catch (const MlflowUnavailable&) {
    if (!group.line.starts_with(kArtifact)) throw;
    set_aside_.push_back({sent_bytes_, group.bytes});
  } catch (const MlflowRefused& error) {
    if (remote_.run_id.empty()) throw;
    if (group.lines > 1) {
      one_by_one_ = group.lines;
      return;
    }
    warn_refused(error);
  }
  advance(group);
}

// Sends the first artifact that was set aside. If it does not arrive, it goes to the end of the
// queue.
void MlflowSpool::deliver_set_aside(MlflowClient& client) {
  const Part part = set_aside_.front();
  set_aside_.erase(set_aside_.begin());
  try {
    client.deliver(reader_(part.offset, part.bytes), remote_);
  } catch (const MlflowUnavailable&) {
    set_aside_.push_back(part);
    throw;
  } catch (const MlflowRefused& error) {
    warn_refused(error);
  }
  save_progress();
}

void MlflowSpool::advance(const MlflowGroup& group) {
  ended_ = group.line.starts_with(kEnd);
  sent_bytes_ += group.bytes;
  one_by_one_ = std::max(0, one_by_one_ - group.lines);
  save_progress();
}

// A lost progress file costs sending again, which changes nothing on the server. So it is not
// synced, and a full disk does not matter.
void MlflowSpool::save_progress() const {
  Json set_aside = Json::array();
  for (const Part& part : set_aside_) set_aside.push_back({part.offset, part.bytes});
  const Json progress = {{"sent_bytes", sent_bytes_},
                         {"run_id", remote_.run_id},
                         {"artifact_root", remote_.artifact_root},
                         {"ended", ended_},
                         {"set_aside", set_aside}};
  try {
    write_file_atomically(*files_, beside(".sent"), progress.dump() + "\n", {.durable = false});
  } catch (const FileError&) {  // See above.
  }
}

void MlflowSpool::load_progress() {
  constexpr std::size_t kMost = 1 << 16;
  remote_.attempted = true;
  if (files_->status(beside(".sent")).kind != FileKind::file) return;
  const Json progress = Json::parse(files_->read(beside(".sent"), kMost), nullptr, false);
  try {
    sent_bytes_ = progress.at("sent_bytes").get<std::uint64_t>();
    remote_.run_id = progress.at("run_id").get<std::string>();
    remote_.artifact_root = progress.at("artifact_root").get<std::string>();
    ended_ = progress.at("ended").get<bool>();
    for (const Json& part : progress.at("set_aside")) {
      set_aside_.push_back({part.at(0).get<std::uint64_t>(), part.at(1).get<std::size_t>()});
    }
  } catch (const Json::exception&) {  // Damaged: send everything again.
    begin_again();
    remote_ = {"", "", true};
  }
}

void MlflowSpool::remove() {
  for (const char* extension : {".jsonl", ".sent"}) files_->remove(beside(extension));
  lock_.reset();
}

std::vector<std::filesystem::path> spools_in(FileSystem& files,
                                             const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  if (files.status(folder).kind != FileKind::directory) return paths;
  for (const auto& name : files.list(folder)) {
    if (name.ends_with(kExtension)) paths.push_back(folder / name);
  }
  return paths;
}

}  // namespace accelerate::detail
