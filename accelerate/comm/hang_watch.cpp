#include "accelerate/comm/hang_watch.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "accelerate/base/environment.h"
#include "accelerate/base/error.h"
#include "accelerate/base/error_name.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/logger.h"
#include "accelerate/base/process_identity.h"
#include "accelerate/base/signal_guards.h"
#include "accelerate/base/text.h"
#include "accelerate/base/thread_stacks.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/job_connection.h"
#include "accelerate/comm/roll_call.h"
#include "accelerate/comm/shared_memory/process_fork.h"
#include "accelerate/formats/hang_report.h"

namespace accelerate::detail {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kUsualLimit{60'000};
// Waits are logged every five seconds anyhow. A shorter timeout ends the job before a report helps.
constexpr milliseconds kLeastTimeout{10'000};
// How often a rank that makes progress looks whether a peer asks. With many ranks it looks less
// often, so that the store gets about a dozen such questions a second at most.
constexpr milliseconds kSeldom{5'000};
constexpr int kRanksPerSeldom = 64;
// How long the ranks have to answer. The first stack of a process takes up to a second.
constexpr milliseconds kAnswerLimit{10'000};
constexpr milliseconds kLook{20};

std::optional<milliseconds> seconds_from_env(const char* name, double least) {
  const auto text = env(name);
  if (!text || text->empty()) return std::nullopt;
  const auto seconds = parse_double(*text);
  if (!seconds || !std::isfinite(*seconds) || *seconds < least || *seconds > 1e6) {
    throw ConfigError(std::string(name) + " is '" + *text + "'; it must be a number of seconds" +
                      (least > 0 ? ", from 0.01" : ", or 0 for no watch"));
  }
  return milliseconds(std::llround(*seconds * 1000));
}

milliseconds limit_for(milliseconds timeout) {
  if (const auto asked = seconds_from_env("ACCELERATE_HANG_LIMIT", 0)) return *asked;
  if (timeout < kLeastTimeout) return milliseconds(0);
  return std::min(kUsualLimit, timeout / 2);
}

std::uint32_t slots_from_env() {
  const auto slots = env_int_first({"TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"});
  if (!slots) return HangOptions().slots;
  if (*slots < 0 || *slots > kMostFlightSlots) {
    throw ConfigError("TORCH_FR_BUFFER_SIZE is " + std::to_string(*slots) + "; allowed are 0 to " +
                      std::to_string(kMostFlightSlots));
  }
  return static_cast<std::uint32_t>(*slots);
}

std::vector<std::uint8_t> to_value(const std::string& text) {
  return {text.begin(), text.end()};
}

std::string to_string(const std::vector<std::uint8_t>& value) {
  return {value.begin(), value.end()};
}

// Returns the prefix of files in a new folder for temporary files.
std::string new_prefix() {
  std::error_code ignored;
  const auto below = std::filesystem::temp_directory_path(ignored);
  std::string name = (ignored ? "/tmp" : below) / "accelerate-hang-XXXXXX";
  return ::mkdtemp(name.data()) == nullptr ? "" : name + "/rank_";
}

}  // namespace

HangOptions hang_options_from_env(milliseconds timeout) {
  HangOptions options;
  options.limit = limit_for(timeout);
  options.timeout = timeout;
  const milliseconds usual = std::clamp(options.limit / 10, milliseconds(50), milliseconds(1000));
  options.interval = seconds_from_env("ACCELERATE_MONITOR_INTERVAL", 0.01).value_or(usual);
  options.slots = slots_from_env();
  options.prefix =
      env_first({"TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"}).value_or("");
  return options;
}

// All that the thread touches. The thread shares it, because it may outlive the watch when it talks
// to a store that does not answer.
class HangWatch::State {
 public:
  State(int rank, int size, HangOptions options)
      : rank_(rank), size_(size), options_(std::move(options)) {
    if (options_.slots == 0) return;
    FlightOptions flight{rank, size, options_.slots, {}};
    if (!options_.prefix.empty()) flight.file = file_of(options_.prefix, kFlightSuffix);
    recorder_ = std::make_shared<FlightRecorder>(flight);
  }

  [[nodiscard]] bool is_wanted() const {
    return recorder_ != nullptr && options_.limit.count() > 0;
  }
  [[nodiscard]] const std::shared_ptr<FlightRecorder>& recorder() const { return recorder_; }

  void introduce(const JobStore& store) {
    job_ = JobConnection(
        {c10::make_intrusive<c10d::PrefixStore>("hang", store.store), store.host, store.port},
        options_.timeout);
    job_.job().store->set(card_key(rank_), to_value(own_process_card()));
  }

  // All ranks have introduced themselves.
  void read_card_of_host() { job_.read_card_of_host(card_key(0)); }

  void run() {
    while (!rests(options_.interval)) {
      try {
        look();
      } catch (...) {
        job_.give_up();  // The store is gone: what can be said without it has been said.
      }
    }
    const std::lock_guard lock(mutex_);
    job_ = {};
    is_over_ = true;
    changed_.notify_all();
  }

  // Ends run(). Returns whether it has ended within `limit`.
  bool stop(milliseconds limit) {
    std::unique_lock lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
    return changed_.wait_for(lock, limit, [&] { return is_over_; });
  }

 private:
  // Returns whether the watch is to end.
  bool rests(milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return is_stopping_; });
  }

  void look() {
    const auto wait = recorder_->longest_wait();
    const milliseconds waited =
        wait ? milliseconds((FlightRecorder::now_ns() - wait->since_ns) / 1'000'000)
             : milliseconds(0);
    const bool is_late = wait && wait->position > reported_ && waited >= options_.limit;
    if (is_late || (is_time_to_ask() && somebody_asks())) report();
  }

  // A rank that has begun nothing for a while looks each time, others seldom.
  bool is_time_to_ask() {
    const auto now = Clock::now();
    if (const auto begun = recorder_->begun(); begun != begun_) {
      begun_ = begun;
      progress_ = now;
    }
    const bool is_idle = now - progress_ > options_.limit / 2;
    if (!is_idle && now < next_question_) return false;
    next_question_ = now + kSeldom * (1 + size_ / kRanksPerSeldom);
    return true;
  }

  bool somebody_asks() { return job_.is_there() && job_.store()->check({key("asks")}); }

  [[nodiscard]] static std::string card_key(int rank) { return "card/" + std::to_string(rank); }
  [[nodiscard]] std::string key(const char* kind) const {
    return std::to_string(incident_) + "/" + kind;
  }
  [[nodiscard]] std::string key(const char* kind, int rank) const {
    return key(kind) + "/" + std::to_string(rank);
  }
  [[nodiscard]] std::filesystem::path file_of(const std::string& prefix,
                                              std::string_view suffix) const {
    return prefix + std::to_string(rank_) + std::string(suffix);
  }

  // Answers, and sees to it that one rank logs the report.
  void report() {
    RankFinding own = finding_of(recorder_->read(), FlightRecorder::now_ns());
    own.process = describe_process(own_process_card());
    own.stacks = to_text(stacks_of_threads());
    reported_ = recorder_->begun();
    bool is_asked = false;
    try {
      is_asked = job_.is_there();
      if (is_asked) report_with_peers(own);
    } catch (const std::exception&) {
      is_asked = false;
      job_.give_up();
    }
    if (!is_asked) report_alone(own);
    ++incident_;
  }

  void report_with_peers(const RankFinding& own) {
    const std::string mine = options_.prefix.empty() ? new_prefix() : options_.prefix;
    const std::string chosen = to_string(job_.store()->compareSet(key("asks"), {}, to_value(mine)));
    // Another rank has chosen the folder. On another machine it is made anew.
    if (chosen != mine && options_.prefix.empty() && !mine.empty()) {
      std::error_code ignored;
      std::filesystem::remove(std::filesystem::path(mine).parent_path(), ignored);
    }
    const std::string& prefix = options_.prefix.empty() ? chosen : options_.prefix;
    write_files(own, prefix);
    RollCall answers(job_.store(), rank_, size_, key("answer"));
    answers.say(to_message(own));
    const milliseconds limit = std::min(kAnswerLimit, options_.timeout / 4);
    const auto end = Clock::now() + limit;
    if (rank_ == 0) {
      const auto early = Clock::now() + limit / 5;
      while (!answers.is_ready() && Clock::now() < end && !rests(kLook)) {
        if (Clock::now() > early && is_rest_lost(answers)) break;
      }
      return log_once(answers, prefix);
    }
    // The next ranks wait a little longer, each until the ranks before it have had their turn.
    const auto turn = end + std::min(limit, milliseconds(2000));
    while (!job_.store()->check({key("told")})) {
      if (rests(kLook * 10)) return;
      if (Clock::now() > turn && is_first_to_answer()) return log_once(answers, prefix);
    }
  }

  bool is_first_to_answer() {
    for (int rank = 0; rank < rank_; ++rank) {
      if (rank != 0 && job_.store()->check({key("answer", rank)})) return false;
    }
    return true;
  }

  // Whether each rank that has not answered is seen to be stopped or dead.
  bool is_rest_lost(RollCall& answers) {
    return std::ranges::all_of(processes_of(answers.missing()), [](const std::string& process) {
      return process.find(", which ") != std::string::npos;
    });
  }

  // Describes the processes of `ranks`.
  std::vector<std::string> processes_of(const std::vector<int>& ranks) {
    std::vector<std::string> keys, processes;
    for (const int rank : ranks) keys.push_back(card_key(rank));
    for (const auto& card : read_values(*job_.store(), keys))
      processes.push_back(describe_process(to_string(card)));
    return processes;
  }

  void log_once(RollCall& answers, const std::string& prefix) {
    const std::string me = std::to_string(rank_);
    if (to_string(job_.store()->compareSet(key("told"), {}, to_value(me))) != me) return;
    log(hang_report(findings_of_all(answers.missing())), prefix);
  }

  // `missing` ranks have not answered: of them the process is known.
  std::vector<RankFinding> findings_of_all(const std::vector<int>& missing) {
    const auto processes = processes_of(missing);
    std::vector<std::string> keys;
    for (int rank = 0; rank < size_; ++rank) {
      if (!std::ranges::binary_search(missing, rank)) keys.push_back(key("answer", rank));
    }
    const auto answers = read_values(*job_.store(), keys);
    std::vector<RankFinding> findings;
    auto answer = answers.begin();
    auto process = processes.begin();
    for (int rank = 0; rank < size_; ++rank) {
      if (std::ranges::binary_search(missing, rank)) {
        findings.push_back({.rank = rank, .call = "", .process = *process++});
      } else {
        findings.push_back(from_message(to_string(*answer++), rank));
      }
    }
    return findings;
  }

  void report_alone(const RankFinding& own) {
    const std::string prefix = options_.prefix.empty() ? new_prefix() : options_.prefix;
    write_files(own, prefix);
    std::vector<RankFinding> findings{own};
    if (rank_ != 0) {
      findings.insert(findings.begin(), {.rank = 0, .call = "", .process = job_.host_process()});
    }
    log("the store of the job does not answer, so the other ranks could not be asked\n" +
            hang_report(findings),
        prefix);
  }

  void write_files(const RankFinding& own, const std::string& prefix) const {
    if (prefix.empty()) return;
    try {
      std::error_code ignored;
      const auto folder = std::filesystem::path(prefix).parent_path();
      if (std::filesystem::create_directory(folder, ignored)) {
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
      }
      recorder_->write_to(file_of(prefix, kFlightSuffix));
      write_file_atomically(real_file_system(), file_of(prefix, ".stacks.txt"), own.stacks,
                            {.durable = false});
    } catch (const std::exception& error) {
      get_logger("accelerate.comm")
          .warning(std::string("the flight record is not written: ") + error.what(),
                   {.main_process_only = false});
    }
  }

  void log(const std::string& report, const std::string& prefix) const {
    std::string text = with_name("nothing has gone on for " + format_duration(options_.limit),
                                 error_name::kStandsStill) +
                       ":\n" + report;
    text += "\nThe timeout of the group, " + format_duration(options_.timeout) +
            ", ends the job if nothing changes. A slow rank needs a larger ACCELERATE_HANG_LIMIT.";
    if (!prefix.empty()) {
      const auto folder = std::filesystem::path(prefix).parent_path();
      text += "\nThe last collectives of each rank: accelerate report " +
              shell_word(untrusted_line(folder.empty() ? "." : folder.string()));
    }
    get_logger("accelerate.comm").error(text, {.main_process_only = false});
  }

  const int rank_;
  const int size_;
  const HangOptions options_;
  std::shared_ptr<FlightRecorder> recorder_;

  // Of the thread alone.
  JobConnection job_;
  std::uint64_t reported_ = 0;  // Collectives begun when the last report was made.
  std::uint64_t begun_ = 0;
  Clock::time_point progress_ = Clock::now();
  Clock::time_point next_question_ = Clock::now() + kSeldom;
  int incident_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  bool is_over_ = false;
  friend class HangWatch;
  std::thread thread_;
};

HangWatch::HangWatch(int rank, int world_size, HangOptions options)
    : state_(std::make_shared<State>(rank, world_size, std::move(options))) {}

HangWatch::~HangWatch() {
  constexpr milliseconds kLimit{2'000};
  if (forked()) {  // The thread is the parent's, and it may hold the mutex.
    (void)new std::shared_ptr<State>(state_);
    return;
  }
  if (!state_->thread_.joinable()) return;
  state_->stop(kLimit) ? state_->thread_.join() : state_->thread_.detach();
}

void HangWatch::introduce(const JobStore& store) {
  if (state_->is_wanted()) state_->introduce(store);
}

void HangWatch::start() {
  if (!state_->is_wanted()) return;
  state_->read_card_of_host();
  const BlockedSignals blocked;
  state_->thread_ = std::thread([state = state_, identity = process_identity()] {
    const ScopedProcessIdentity scope(identity);
    state->run();
  });
  ::pthread_setname_np(state_->thread_.native_handle(), "comm-watch");
}

const std::shared_ptr<FlightRecorder>& HangWatch::recorder() const {
  return state_->recorder();
}

}  // namespace accelerate::detail
