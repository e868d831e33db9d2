#include "accelerate/comm/process_store.h"

#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/sealed_store.h"
#include "accelerate/comm/socket.h"
#include "accelerate/comm/store_connection.h"
#include "accelerate/tensor/compat/quiet_log.h"

namespace accelerate::detail {
namespace {

using std::chrono::milliseconds;

constexpr const char* kNumber = "meeting";
// The least time that c10d gets to greet the host, even if connecting took the whole timeout.
constexpr milliseconds kLeastGreeting{1'000};

std::string name_of(const RendezvousOptions& options) {
  return "rank " + std::to_string(options.rank) + " of " + std::to_string(options.world_size);
}

std::string place_of(const RendezvousOptions& options) {
  return options.master_addr + ":" + std::to_string(options.master_port);
}

void report_wait(const RendezvousOptions& options, const std::string& what, milliseconds waited) {
  get_logger("accelerate.comm")
      .warning("rank " + std::to_string(options.rank) + " waits for rank 0 to " + what + " " +
                   place_of(options) + " (" + format_duration(waited) + " of " +
                   format_duration(options.timeout) + ")",
               {.main_process_only = false});
}

c10::intrusive_ptr<c10d::Store> connect(const RendezvousOptions& options,
                                        c10d::TCPStoreOptions store) {
  const WithoutBrokenPipes no_signals;  // The host's thread answers clients that may have left.
  const compat::QuietLog quiet(compat::QuietLog::Keeps::nothing);
  const GreetingLimit limit(options.master_addr, options.master_port, store.timeout);
  try {
    return c10::make_intrusive<c10d::TCPStore>(options.master_addr, store);
  } catch (const std::exception& error) {
    if (!limit.is_over()) {
      throw CommError(name_of(options) + " could not open the store on " + place_of(options) +
                      ": " + first_line(error));
    }
    throw CommError(
        name_of(options) + " reached " + place_of(options) +
            ", but nobody answered there within the timeout of " +
            format_duration(options.timeout) +
            ". Is rank 0, or the launcher that hosts the store, stopped or overloaded, or "
            "does another program listen on MASTER_PORT?",
        error_name::kRanksDoNotMeet);
  }
}

// One store, and the number of the last meeting on it.
class ProcessStore {
 public:
  ProcessStore(const RendezvousOptions& options, const Deadline& deadline)
      : local_address_(options.master_addr) {
    require_loopback_is_up(options.master_addr, options.master_port);
    c10d::TCPStoreOptions store;
    store.port = static_cast<std::uint16_t>(options.master_port);
    store.waitWorkers = false;  // we wait ourselves, and report which ranks are missing
    store.isServer = options.rank == 0 && !options.store_is_hosted_by_launcher;
    // By default the store listens on every interface; so it gets a socket that is bound to one.
    if (store.isServer) {
      store.masterListenFd = bind_only(options.master_addr, options.master_port);
    } else {
      local_address_ = wait_until_reachable(
          options.master_addr, options.master_port, deadline,
          [&options](milliseconds waited) { report_wait(options, "listen on", waited); });
    }
    store.timeout = std::max(deadline.left(), kLeastGreeting);
    store_ = c10::make_intrusive<SealedStore>(connect(options, store), options.job_token);
    if (store.isServer) compat::silence_store();
  }
  // In a forked child the connection and the thread behind it belong to the parent.
  ~ProcessStore() {
    if (!is_ours()) (void)store_.release();
  }
  ProcessStore(const ProcessStore&) = delete;
  ProcessStore& operator=(const ProcessStore&) = delete;

  [[nodiscard]] bool is_ours() const { return process_ == getpid(); }

  [[nodiscard]] MeetingPlace next_meeting(const RendezvousOptions& options,
                                          const Deadline& deadline) {
    store_->setTimeout(options.timeout);
    notice_lost_host(options.master_addr, options.master_port, options.timeout);
    const std::string attempt = "accelerate.cpp/attempt" + std::to_string(options.restart_count);
    const auto of_attempt = c10::make_intrusive<c10d::PrefixStore>(attempt, store_);
    last_meeting_ =
        options.rank == 0 ? begin_meeting(*of_attempt) : await(*of_attempt, options, deadline);
    return {
        c10::make_intrusive<c10d::PrefixStore>(kNumber + std::to_string(last_meeting_), of_attempt),
        local_address_};
  }

 private:
  // Only rank 0 counts meetings: ranks whose attempts failed may have tried more or less often.
  [[nodiscard]] int begin_meeting(c10d::Store& store) const {
    const std::string number = std::to_string(last_meeting_ + 1);
    store.set(kNumber, std::vector<std::uint8_t>(number.begin(), number.end()));
    return last_meeting_ + 1;
  }

  [[nodiscard]] int await(c10d::Store& store, const RendezvousOptions& options,
                          const Deadline& deadline) const {
    constexpr milliseconds kPoll{2};
    auto next_report = kWaitSlice;
    for (;; std::this_thread::sleep_for(kPoll)) {
      if (const int number = announced(store); number > last_meeting_) return number;
      if (deadline.is_over()) {
        throw CommError(name_of(options) + ": rank 0 did not begin " +
                            (last_meeting_ < 0 ? "a group" : "another group") + " on " +
                            place_of(options) + " within the timeout of " +
                            format_duration(options.timeout) +
                            ". Does rank 0 run, and do all ranks begin as many groups?",
                        error_name::kRanksDoNotMeet);
      }
      if (deadline.waited() < next_report) continue;
      next_report += kWaitSlice;
      report_wait(options, "begin a group on", deadline.waited());
    }
  }

  // Returns the number of the last meeting that rank 0 has begun; -1 if none.
  [[nodiscard]] static int announced(c10d::Store& store) {
    if (!store.check({kNumber})) return -1;
    const auto bytes = store.get(kNumber);
    const auto number = parse_int(std::string(bytes.begin(), bytes.end()));
    if (number && *number >= 0 && *number < std::numeric_limits<int>::max()) {
      return static_cast<int>(*number);
    }
    throw CommError(
        "the store of the job holds an invalid number of groups for rank 0. Does another program "
        "write to it?");
  }

  pid_t process_ = getpid();
  std::string local_address_;
  c10::intrusive_ptr<c10d::Store> store_;
  int last_meeting_ = -1;
};

// Returns the store of a rank at an address. Opens it without the lock, because a rank waits for
// the host, which may be another thread of this process.
std::shared_ptr<ProcessStore> store_for(const RendezvousOptions& options,
                                        const Deadline& deadline) {
  static std::mutex mutex;
  static std::map<std::tuple<std::string, int, int>, std::shared_ptr<ProcessStore>> stores;
  const auto key = std::tuple(options.master_addr, options.master_port, options.rank);
  {
    const std::lock_guard lock(mutex);
    const auto known = stores.find(key);
    if (known != stores.end() && known->second->is_ours()) return known->second;
  }
  auto opened = std::make_shared<ProcessStore>(options, deadline);
  const std::lock_guard lock(mutex);
  stores[key] = opened;
  return opened;
}

}  // namespace

MeetingPlace open_meeting(const RendezvousOptions& options, const Deadline& deadline) {
  try {
    return store_for(options, deadline)->next_meeting(options, deadline);
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    throw CommError(
        name_of(options) + " could not use the store on " + place_of(options) + ": " +
            first_line(error) +
            ". The store, which rank 0 or its launcher hosts, has ended, crashed or is stopped.",
        error_name::kRankLost);
  }
}

}  // namespace accelerate::detail
