#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "accelerate/transformers/hub/upload.h"

namespace accelerate {

struct BackgroundUploads::Queue {
  void run() {
    for (;;) {
      std::packaged_task<CommitInfo()> task;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return is_closed || !tasks.empty(); });
        if (tasks.empty()) return;
        task = std::move(tasks.front());
        tasks.pop_front();
        is_busy = true;
      }
      task();
      const std::lock_guard lock(mutex);
      is_busy = false;
      changed.notify_all();
    }
  }

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::packaged_task<CommitInfo()>> tasks;
  bool is_busy = false;
  bool is_closed = false;
  std::thread thread;  // Started by the first upload.
};

BackgroundUploads::BackgroundUploads() : queue_(std::make_unique<Queue>()) {}

BackgroundUploads::~BackgroundUploads() {
  {
    const std::lock_guard lock(queue_->mutex);
    queue_->is_closed = true;
  }
  queue_->changed.notify_all();
  if (queue_->thread.joinable()) queue_->thread.join();
}

std::future<CommitInfo> BackgroundUploads::upload_folder(std::string repo_id,
                                                         std::filesystem::path folder,
                                                         HubOptions options,
                                                         UploadFolderOptions upload) {
  options.show_progress = false;  // Its lines would mix with the caller's progress bars.
  std::packaged_task<CommitInfo()> task([repo_id = std::move(repo_id), folder = std::move(folder),
                                         options = std::move(options), upload = std::move(upload)] {
    return accelerate::upload_folder(repo_id, folder, options, upload);
  });
  auto outcome = task.get_future();
  const std::lock_guard lock(queue_->mutex);
  queue_->tasks.push_back(std::move(task));
  if (!queue_->thread.joinable()) queue_->thread = std::thread([this] { queue_->run(); });
  queue_->changed.notify_all();
  return outcome;
}

bool BackgroundUploads::is_idle() const {
  const std::lock_guard lock(queue_->mutex);
  return queue_->tasks.empty() && !queue_->is_busy;
}

void BackgroundUploads::wait() {
  std::unique_lock lock(queue_->mutex);
  queue_->changed.wait(lock, [&] { return queue_->tasks.empty() && !queue_->is_busy; });
}

}  // namespace accelerate
