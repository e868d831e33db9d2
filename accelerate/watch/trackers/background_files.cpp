#include "accelerate/watch/trackers/background_files.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/watch/trackers/values.h"

namespace accelerate::detail {

BackgroundFiles::BackgroundFiles(std::string owner, BackgroundFilesOptions options)
    : owner_(std::move(owner)),
      options_(options),
      process_(::getpid()),
      thread_([this] { run(); }) {}

BackgroundFiles::~BackgroundFiles() {
  if (!is_of_this_process()) {
    thread_.detach();       // It runs in the other process,
    (void)wake_.release();  // and this would wait for it.
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_->notify_all();
  thread_.join();
  if (write_all()) return;
  std::uint64_t lost = 0;
  for (const auto& [path, file] : files_) lost += file.lost;
  warn(owner_ + " could not write its last " + std::to_string(waiting_bytes_) + " bytes" +
       (lost > 0 ? ", and " + std::to_string(lost) + " records found no room in memory" : "") +
       "; they are lost");
}

bool BackgroundFiles::is_of_this_process() const {
  return ::getpid() == process_;
}

void BackgroundFiles::resume(const Path& path, std::uint64_t keep_bytes) {
  const std::scoped_lock lock(writing_, mutex_);
  files_[path].good_bytes = keep_bytes;
}

void BackgroundFiles::set_head(const Path& path, std::string head) {
  const std::lock_guard lock(mutex_);
  files_[path].head = std::move(head);
}

void BackgroundFiles::append(const Path& path, std::string record) {
  add(path, std::move(record), false);
}

void BackgroundFiles::write(const Path& path, std::string bytes) {
  add(path, std::move(bytes), true);
}

void BackgroundFiles::add(const Path& path, std::string bytes, bool is_whole) {
  const std::lock_guard lock(mutex_);
  File& file = files_[path];
  file.is_whole = is_whole;
  const std::size_t sum = waiting_bytes_ + bytes.size();
  if (waiting_bytes_ > 0 && sum > options_.max_waiting_bytes) {
    ++file.lost;
    return;
  }
  if (waiting_bytes_ < options_.hurry_bytes && sum >= options_.hurry_bytes) wake_->notify_all();
  waiting_bytes_ = sum;
  file.waiting.push_back({std::move(bytes), nullptr});
}

void BackgroundFiles::rewrite(const Path& path, std::function<std::string(std::string)> rewrite) {
  const std::lock_guard lock(mutex_);
  files_[path].waiting.push_back({"", std::move(rewrite)});
}

bool BackgroundFiles::flush() {
  return write_all();
}

std::size_t BackgroundFiles::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_;
}

void BackgroundFiles::run() {
  // A disk that refuses is not tried again before the interval is over.
  bool works = true;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    wake_->wait_for(lock, options_.flush_interval,
                    [&] { return stop_ || (works && waiting_bytes_ >= options_.hurry_bytes); });
    const auto is_done = [](const auto& one) { return one.second.waiting.empty(); };
    if (stop_ || std::ranges::all_of(files_, is_done)) continue;
    lock.unlock();
    works = write_all();
    lock.lock();
  }
}

std::vector<BackgroundFiles::Entry> BackgroundFiles::entries() {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  for (auto& [path, file] : files_) all.emplace_back(&path, &file);
  return all;
}

bool BackgroundFiles::write_all() {
  constexpr std::size_t kMostOpen = 64;  // Leaves most descriptors to the program.
  const std::lock_guard writing(writing_);
  const auto all = entries();
  bool done = true;
  for (const auto& [path, file] : all) {
    done = write_one(*path, *file) && done;
    if (all.size() > kMostOpen) file->handle.reset();
  }
  forget_whole_files();
  return done;
}

void BackgroundFiles::forget_whole_files() {
  const std::lock_guard lock(mutex_);
  std::erase_if(files_, [](const auto& one) {
    return one.second.is_whole && one.second.waiting.empty() && one.second.lost == 0;
  });
}

bool BackgroundFiles::write_one(const Path& path, File& file) {
  try {
    for (;;) {
      bool is_rewrite = false;
      {
        const std::lock_guard lock(mutex_);
        if (file.waiting.empty()) break;
        is_rewrite = file.waiting.front().rewrite != nullptr;
      }
      notice_removal(path, file);
      is_rewrite ? apply_rewrite(path, file) : write_records(path, file);
    }
    report_success(path, file);
    if (file.is_whole) file.handle.reset();
    return true;
  } catch (const std::exception& error) {
    file.handle.reset();  // A torn record is cut off when the file is opened again.
    report_failure(file, error);
    return false;
  }
}

// Records written to a removed file would be lost.
void BackgroundFiles::notice_removal(const Path& path, File& file) {
  if (file.good_bytes == 0 || options_.files->status(path).kind != FileKind::none) return;
  warn("'" + path.string() + "' was removed while " + owner_ +
       " wrote to it. It begins again; what it held is gone.");
  file.handle.reset();
  file.good_bytes = 0;
  const std::lock_guard lock(mutex_);
  waiting_bytes_ += file.head.size();
  file.waiting.push_front({file.head, nullptr});
}

// Writes the records up to the next rewrite, in one write.
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
  file.handle.reset();  // It refers to the replaced file.
  file.good_bytes = after.size();
  file.waiting.pop_front();
}

void BackgroundFiles::open(const Path& path, File& file) {
  if (path.has_parent_path()) options_.files->create_directories(path.parent_path());
  file.handle = options_.files->append(path, file.good_bytes);
}

void BackgroundFiles::report_failure(File& file, const std::exception& error) {
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    lost = file.lost;
  }
  if (!std::exchange(file.failing, true)) {
    const auto* reason = dynamic_cast<const FileError*>(&error);
    const std::string number = reason != nullptr && reason->error_number() != 0
                                   ? " (errno " + std::to_string(reason->error_number()) + ")"
                                   : "";
    const ErrorName name = reason != nullptr ? reason->situation() : ErrorName();
    warn(
        with_name(owner_ + ": " + error.what() + number, name) +
        ". Training continues; what is logged waits in memory and is written when that is possible "
        "again.");
  }
  if (lost > 0 && !std::exchange(file.overflowing, true)) {
    warn(owner_ + " has " + std::to_string(options_.max_waiting_bytes) +
         " bytes waiting for the disk, which is all that it keeps; what is logged from now on is "
         "lost until the disk takes them");
  }
}

void BackgroundFiles::report_success(const Path& path, File& file) {
  const bool failed = std::exchange(file.failing, false);
  file.overflowing = false;
  std::uint64_t lost = 0;
  {
    const std::lock_guard lock(mutex_);
    lost = std::exchange(file.lost, 0);
  }
  const std::string loss = std::to_string(lost) + " records found no room in memory and are lost";
  if (failed) {
    warn(owner_ + " writes to '" + path.string() + "' again; " +
         (lost == 0 ? "nothing was lost" : loss));
  } else if (lost > 0) {
    warn(owner_ + " was given more at once than it can write to '" + path.string() + "': " + loss);
  }
}

}  // namespace accelerate::detail
