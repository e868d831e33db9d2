#include "accelerate/comm/job_connection.h"

#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/store_connection.h"
#include "accelerate/tensor/compat/quiet_log.h"

namespace accelerate::detail {

JobConnection::JobConnection(JobStore job, std::chrono::milliseconds timeout)
    : job_(std::move(job)), timeout_(timeout) {}

void JobConnection::read_card_of_host(const std::string& key) {
  const auto card = job_.store->get(key);
  card_of_host_.assign(card.begin(), card.end());
}

bool JobConnection::is_there() {
  constexpr std::chrono::seconds kGreeting{10};
  if (is_lost_ || host_has_left(job_.host, job_.port)) return false;
  if (host_process().find(", which ") != std::string::npos) {
    return false;  // Rank 0 hosts the store, and is stopped or has died.
  }
  if (store_) return true;
  const compat::QuietLog quiet(compat::QuietLog::Keeps::nothing);
  const GreetingLimit greeting(job_.host, job_.port, kGreeting);
  store_ = job_.store->clone();
  notice_lost_host(job_.host, job_.port, timeout_);
  return true;
}

std::string JobConnection::host_process() const {
  return describe_process(card_of_host_);
}

void JobConnection::give_up() {
  store_ = nullptr;
  is_lost_ = true;
}

}  // namespace accelerate::detail
