#include "accelerate/tracking/background_files.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"

namespace accelerate::detail {
namespace {

// The thread that writes belongs to no rank, and the tracker already runs on the right ones.
void warn(const std::string& text) {
  get_logger("accelerate.tracking").warning(text, {.main_process_only = false});
}

}  // namespace

BackgroundFiles::BackgroundFiles(std::string owner, BackgroundFilesOptions options)
    : owner_(std::move(owner)), options_(options), thread_([this] { run(); }) {}

BackgroundFiles::~BackgroundFiles() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
  if (!write_all()) {
    warn(owner_ + " could not write its last " + std::to_string(waiting_bytes_) +
         " bytes; they are lost");
  }
}

void BackgroundFiles::resume(const Path& path, std::uint64_t keep_bytes) {
  const std::scoped_lock lock(writing_, mutex_);
  files_[path].good_bytes = keep_bytes;
}

void BackgroundFiles::append(const Path& path, std::string record) {
  const std::lock_guard lock(mutex_);
  File& file = files_[path];
  if (waiting_bytes_ + record.size() > options_.max_waiting_bytes) {
    ++file.lost;
    return;
  }
  waiting_bytes_ += record.size();
  file.waiting.push_back({std::move(record), nullptr});
}

void BackgroundFiles::rewrite(const Path& path, std::function<std::string(std::string)> rewrite) {
  const std::lock_guard lock(mutex_);
  files_[path].waiting.push_back({"", std::move(rewrite)});
}

bool BackgroundFiles::flush() {
  return write_all();
}

std::string BackgroundFiles::read(const Path& path, std::uint64_t offset, std::size_t max_bytes) {
  const std::scoped_lock lock(writing_, mutex_);
  const File& file = files_[path];
  std::string text;
  if (offset < file.good_bytes) {
    const auto content = options_.files->map(path);
    const auto bytes = content->bytes();
    const auto end = std::min<std::uint64_t>(bytes.size(), file.good_bytes);
    if (offset < end) {
      const auto size = std::min<std::uint64_t>(end - offset, max_bytes);
      text.assign(reinterpret_cast<const char*>(bytes.data()) + offset, size);
    }
  }
  std::uint64_t at = file.good_bytes;
  for (const Change& change : file.waiting) {
    if (text.size() >= max_bytes) break;
    const std::uint64_t skip = offset > at ? offset - at : 0;
    if (skip < change.record.size()) {
      text.append(change.record, skip, max_bytes - text.size());
    }
    at += change.record.size();
  }
  return text;
}

std::size_t BackgroundFiles::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_;
}

void BackgroundFiles::run() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.flush_interval, [this] { return stop_; })) {
    if (std::ranges::all_of(files_, [](const auto& one) { return one.second.waiting.empty(); })) {
      continue;
    }
    lock.unlock();
    write_all();
    lock.lock();
  }
}

bool BackgroundFiles::write_all() {
  const std::lock_guard writing(writing_);
  std::vector<std::pair<const Path*, File*>> all;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [path, file] : files_) all.emplace_back(&path, &file);
  }
  bool done = true;
  for (const auto& [path, file] : all) done = write_one(*path, *file) && done;
  return done;
}

bool BackgroundFiles::write_one(const Path& path, File& file) {
  try {
    for (;;) {
      bool is_rewrite = false;
      {
        const std::lock_guard lock(mutex_);
        if (file.waiting.empty()) return true;
        is_rewrite = file.waiting.front().rewrite != nullptr;
      }
      is_rewrite ? apply_rewrite(path, file) : write_records(path, file);
      report_recovery(path, file);
    }
  } catch (const std::exception& error) {
    file.handle.reset();  // What was half written is cut off when it is opened again.
    report_failure(path, file, error);
    return false;
  }
}

// The records up to the next rewrite, in one write.
void BackgroundFiles::write_records(const Path& path, File& file) {
  std::string bytes;
  std::size_t records = 0;
  {
    const std::lock_guard lock(mutex_);
    for (const Change& change : file.waiting) {
      if (change.rewrite) break;
      bytes += change.record;
      ++records;
    }
  }
  if (!file.handle) open(path, file);
  file.handle->write(bytes);
  const std::lock_guard lock(mutex_);
  file.good_bytes += bytes.size();
  waiting_bytes_ -= bytes.size();
  file.waiting.erase(file.waiting.begin(),
                     file.waiting.begin() + static_cast<std::ptrdiff_t>(records));
}

void BackgroundFiles::apply_rewrite(const Path& path, File& file) {
  if (!file.handle) open(path, file);
  const auto before = options_.files->read(path, ~std::size_t{0} >> 1);
  std::function<std::string(std::string)> rewrite;
  {
    const std::lock_guard lock(mutex_);
    rewrite = file.waiting.front().rewrite;
  }
  const std::string after = rewrite(before.substr(0, file.good_bytes));
  write_file_atomically(*options_.files, path, after, {.durable = false});
  const std::lock_guard lock(mutex_);
  file.handle.reset();  // It leads to the file that was replaced.
  file.good_bytes = after.size();
  file.waiting.pop_front();
}

void BackgroundFiles::open(const Path& path, File& file) {
  if (path.has_parent_path()) options_.files->create_directories(path.parent_path());
  file.handle = options_.files->append(path, file.good_bytes);
}

void BackgroundFiles::report_failure(const Path&, File& file, const std::exception& error) {
  if (std::exchange(file.failing, true)) return;
  const auto* reason = dynamic_cast<const FileError*>(&error);
  const std::string number = reason != nullptr && reason->error_number() != 0
                                 ? " (errno " + std::to_string(reason->error_number()) + ")"
                                 : "";
  warn(owner_ + ": " + error.what() + number +
       ". Training goes on; what is logged waits in memory and is written when that is possible "
       "again.");
}

void BackgroundFiles::report_recovery(const Path& path, File& file) {
  if (!std::exchange(file.failing, false)) return;
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    lost = std::exchange(file.lost, 0);
  }
  warn(owner_ + " writes to '" + path.string() + "' again; " +
       (lost == 0 ? "nothing was lost"
                  : std::to_string(lost) + " records found no room and are lost"));
}

}  // namespace accelerate::detail
