#include "accelerate/tracking/mlflow_tracker.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <random>

#include "accelerate/base/error.h"
#include "accelerate/tracking/clock.h"
#include "accelerate/tracking/mlflow_client.h"
#include "accelerate/tracking/mlflow_spool.h"
#include "accelerate/tracking/summaries.h"
#include "accelerate/tracking/text_table.h"
#include "accelerate/tracking/tracker_options.h"
#include "accelerate/tracking/warnings.h"

namespace accelerate {
namespace {

using detail::warn;

std::int64_t now_ms() {
  return static_cast<std::int64_t>(detail::seconds_since_epoch() * 1000);
}

std::string artifact_path(const char* folder, const std::string& name,
                          std::optional<std::int64_t> step, const char* extension) {
  return std::string(folder) + "/" + detail::file_name_part(name) + "/step_" +
         std::to_string(step.value_or(0)) + extension;
}

void warn_kept(const detail::MlflowSpool& spool, const Error& error) {
  warn("'" + spool.path().string() +
       "', left by an earlier run, could not be sent and is kept: " + error.what());
}

// Formats the table as mlflow.log_table does. Numbers stay numbers, other values become text.
std::string mlflow_table(const TrackerTable& table) {
  using Json = nlohmann::ordered_json;
  Json data = Json::array();
  for (const auto& row : table.rows) {
    Json cells = Json::array();
    for (const auto& value : row) {
      const auto* real = std::get_if<double>(&value.as_variant());
      const auto* whole = std::get_if<std::int64_t>(&value.as_variant());
      cells.push_back(real != nullptr    ? Json(*real)
                      : whole != nullptr ? Json(*whole)
                                         : Json(detail::value_text(value)));
    }
    data.push_back(std::move(cells));
  }
  return Json({{"columns", table.columns}, {"data", std::move(data)}})
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

MlflowTracker::MlflowTracker(const TrackerSetup& setup,
                             std::unique_ptr<detail::HttpTransport> transport)
    : MlflowTracker(detail::mlflow_settings(setup), std::move(transport)) {}

MlflowTracker::MlflowTracker(detail::MlflowSettings settings,
                             std::unique_ptr<detail::HttpTransport> transport)
    : settings_(std::move(settings)), transport_(std::move(transport)), process_(::getpid()) {
  if (!transport_) transport_ = detail::make_http_transport(settings_.http);
  if (!transport_) {
    throw ConfigError("the tracker 'mlflow' cannot be used: " + detail::why_no_http_transport());
  }
}

MlflowTracker::~MlflowTracker() {
  if (!thread_.joinable()) return;
  // In a fork the thread and the connection belong to the other process.
  if (process_ != ::getpid()) {
    thread_.detach();
    (void)transport_.release();
    (void)changed_.release();  // Its destructor would wait for that thread.
    return;
  }
  stop_sending();
  files_.reset();  // Writes what waits.
  warn("the tracker 'mlflow' ended without end_training(): the run is left open, and '" +
       spool_path_.string() + "' holds what was not sent; the next run with the same server and " +
       "spool folder sends it and marks this one as KILLED");
}

void MlflowTracker::start() {
  detail::make_run_folder("mlflow", real_file_system(), settings_.spool_folder);
  spool_path_ = settings_.spool_folder / (settings_.run.spool_id + ".jsonl");
  files_ = std::make_unique<detail::BackgroundFiles>(
      "the tracker 'mlflow'",
      detail::BackgroundFilesOptions{.flush_interval = settings_.flush_interval});
  const std::string first = detail::run_line(settings_.run, settings_.server);
  files_->set_head(spool_path_, first);
  append(first);
  thread_ = std::thread([this] { run(); });
}

void MlflowTracker::append(std::string line) {
  detail::files_of_run(files_, name()).append(spool_path_, std::move(line));
}

void MlflowTracker::append(std::vector<std::string> lines) {
  for (auto& line : lines) append(std::move(line));
}

void MlflowTracker::store_init_configuration(const TrackerConfig& config) {
  append(detail::param_lines(config));
}

void MlflowTracker::log(const TrackerValues& values, std::optional<std::int64_t> step) {
  append(detail::metric_lines(values, step.value_or(0), now_ms()));
}

void MlflowTracker::log_images(const TrackerImages& images, std::optional<std::int64_t> step) {
  for (const auto& [name, image] : images) {
    append(detail::artifact_line(artifact_path("images", name, step, ".png"),
                                 detail::encode_image(name, image).png));
  }
}

void MlflowTracker::log_table(const std::string& name, const TrackerTable& table,
                              std::optional<std::int64_t> step) {
  append(detail::artifact_line(artifact_path("tables", name, step, ".json"), mlflow_table(table)));
}

std::string MlflowTracker::run_id() const {
  const std::lock_guard lock(mutex_);
  return run_id_;
}

// Runs on the sending thread: sends our spool first, then the spools of earlier runs.
void MlflowTracker::run() {
  detail::MlflowClient client(*transport_, settings_.server);
  detail::MlflowSpool own(real_file_system(), spool_path_,
                          [this](std::uint64_t offset, std::size_t max_bytes) {
                            return read_spool(offset, max_bytes);
                          });
  take_over_abandoned();
  while (!own.is_complete()) {
    if (is_stopped()) return;
    try {
      if (!send_own(own, client) && !send_abandoned(client)) pause(settings_.flush_interval);
    } catch (const detail::MlflowUnavailable& error) {
      report_outage(error.what());
      pause(error.retry_after().value_or(std::chrono::seconds(0)));
    } catch (const std::exception& error) {
      report_outage(error.what());
      pause({});
    }
  }
  conclude(own);
  while (!is_stopped() && send_abandoned(client)) {  // A later run sends what fails now.
  }
  set_flag(is_done_);
}

std::string MlflowTracker::read_spool(std::uint64_t offset, std::size_t max_bytes) const {
  std::string text = files_->read(spool_path_, offset, max_bytes);
  if (files_->removals(spool_path_) == removals_) return text;
  throw FileError("read", spool_path_, "it was removed meanwhile");
}

// Sends one request of this run. Publishes the run's id as soon as it is known.
bool MlflowTracker::send_own(detail::MlflowSpool& own, detail::MlflowClient& client) {
  bool is_sent = false;
  try {
    is_sent = own.send_next(client);
  } catch (const FileError&) {  // Removed. The next append makes it anew.
  }
  if (const int removals = files_->removals(spool_path_); removals != removals_) {
    removals_ = removals;
    own.begin_again();
    return true;
  }
  if (!is_sent) return false;
  if (failures_ > 0) warn("the MLflow server " + settings_.server + " answers again");
  failures_ = 0;
  const std::lock_guard lock(mutex_);
  run_id_ = own.remote().run_id;
  return true;
}

// Removes the spool, since everything has arrived. What is not on disk yet is dropped.
void MlflowTracker::conclude(detail::MlflowSpool& own) {
  files_->discard();
  files_.reset();
  try {
    own.remove();
  } catch (const FileError& error) {
    warn(std::string("the tracker 'mlflow' cannot remove what it has sent: ") + error.what());
  }
  set_flag(has_arrived_);
}

void MlflowTracker::take_over_abandoned() {
  std::vector<std::filesystem::path> paths;
  try {
    paths = detail::spools_in(real_file_system(), settings_.spool_folder);
  } catch (const FileError& error) {
    warn(std::string("the tracker 'mlflow' cannot look for what earlier runs left: ") +
         error.what());
  }
  for (const auto& path : paths) {
    if (path == spool_path_) continue;
    try {
      auto spool = detail::MlflowSpool::take_over(real_file_system(), path);
      if (!spool) continue;
      if (spool->is_empty()) {
        spool->remove();
      } else if (spool->server() == settings_.server) {
        abandoned_.push_back(std::move(*spool));
      }
    } catch (const FileError& error) {
      if (error.error_number() == ENOENT) continue;  // Another run has sent it meanwhile.
      warn(std::string("the tracker 'mlflow' cannot read what an earlier run left: ") +
           error.what());
    }
  }
}

// Sends one request of an earlier run. Once everything has arrived, marks the run as ended. Returns
// false if there is none, or if sending failed a moment ago.
bool MlflowTracker::send_abandoned(detail::MlflowClient& client) {
  constexpr int kMostFailures = 5;
  if (abandoned_.empty() || std::chrono::steady_clock::now() < abandoned_pause_) return false;
  detail::MlflowSpool& spool = abandoned_.back();
  try {
    if (spool.send_next(client)) {
      abandoned_failures_ = 0;
      return true;
    }
    if (!spool.ended()) client.end_killed(spool.remote(), now_ms());
    spool.remove();
  } catch (const detail::MlflowUnavailable& error) {
    const auto asked = error.retry_after().value_or(std::chrono::seconds(0));
    const auto pause = std::max<std::chrono::milliseconds>(asked, backoff(++abandoned_failures_));
    abandoned_pause_ = std::chrono::steady_clock::now() + pause;
    if (abandoned_failures_ < kMostFailures) return false;
    warn_kept(spool, error);
  } catch (const Error& error) {
    warn_kept(spool, error);
  }
  abandoned_failures_ = 0;
  abandoned_.pop_back();
  return true;
}

// Grows with each failure. The random part keeps runs that lost the server together from returning
// together.
std::chrono::milliseconds MlflowTracker::backoff(int failures) const {
  static thread_local std::minstd_rand random(std::random_device{}());
  const auto doubled = settings_.first_retry * (1LL << std::min(failures - 1, 16));
  const auto base = std::min<std::chrono::milliseconds>(doubled, settings_.longest_retry);
  return base / 2 + std::chrono::milliseconds(random() % (base.count() + 1));
}

// Waits until there is something to do. The end of the training triggers an immediate retry.
void MlflowTracker::pause(std::chrono::milliseconds least) {
  auto wait = failures_ > 0 ? std::max(least, backoff(failures_)) : least;
  std::unique_lock lock(mutex_);
  const bool was_finishing = is_finishing_;
  // At the end there is no time for long pauses.
  if (was_finishing) wait = std::min(wait, settings_.first_retry);
  changed_->wait_for(lock, wait, [&] { return is_stopped_ || is_finishing_ != was_finishing; });
}

void MlflowTracker::report_outage(const std::string& why) {
  if (is_stopped() || failures_++ > 0) return;
  warn("the MLflow server " + settings_.server + " cannot be used: " + why +
       ". Training goes on; what is logged is kept in '" + spool_path_.string() +
       "' and sent when the server answers again, or by the next run.");
}

void MlflowTracker::finish() {
  append(detail::end_line(now_ms()));
  set_flag(is_finishing_);
  bool has_arrived = false;
  {
    std::unique_lock lock(mutex_);
    changed_->wait_for(lock, settings_.finish_timeout, [this] { return is_done_; });
    has_arrived = has_arrived_;
  }
  stop_sending();
  const bool is_kept = !files_ || files_->flush();
  files_.reset();  // Warns about what it could not write.
  if (has_arrived) return;
  warn("not all that was logged has reached the MLflow server " + settings_.server + ": '" +
       spool_path_.string() +
       (is_kept ? "' holds it, and the next run with the same server and spool folder sends it"
                : "' holds a part of it, which the next run with the same server and spool folder "
                  "sends"));
}

void MlflowTracker::stop_sending() {
  set_flag(is_stopped_);
  transport_->cancel();
  thread_.join();
}

void MlflowTracker::set_flag(bool& flag) {
  const std::lock_guard lock(mutex_);
  flag = true;
  changed_->notify_all();
}

bool MlflowTracker::is_stopped() const {
  const std::lock_guard lock(mutex_);
  return is_stopped_;
}

}  // namespace accelerate
