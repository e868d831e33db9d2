// The connection of a thread that watches a rank to the store of its job.
#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>

namespace c10d {
class Store;
}

namespace accelerate::detail {

/// The store of a job, and where it is.
struct JobStore {
  c10::intrusive_ptr<c10d::Store> store;
  std::string host;
  int port = 0;
};

/// Opened when it is needed, and never again once the store was lost. For one thread.
class JobConnection {
 public:
  JobConnection() = default;
  /// `timeout` of the group: how long an answer of a host that is lost is awaited.
  JobConnection(JobStore job, std::chrono::milliseconds timeout);

  /// Reads the card of the process of rank 0, which may host the store, from the store that ranks
  /// meet in. To be called when that process has left its card under `key`.
  void read_card_of_host(const std::string& key);

  /// Whether the store can be asked without a long wait. The first call connects. Throws what the
  /// store throws.
  [[nodiscard]] bool is_there();
  /// The store, when it is there.
  [[nodiscard]] const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }
  /// Of the job: the store that ranks meet in.
  [[nodiscard]] const JobStore& job() const { return job_; }
  /// The process of rank 0, as describe_process() does.
  [[nodiscard]] std::string host_process() const;

  /// To be called when the store has failed.
  void give_up();

 private:
  JobStore job_;
  std::chrono::milliseconds timeout_{};
  c10::intrusive_ptr<c10d::Store> store_;  // Of a connection of its own; null until it is needed.
  std::string card_of_host_;
  bool is_lost_ = false;
};

}  // namespace accelerate::detail
