#include "accelerate/watch/trackers/mlflow_tracker.h"

#include <unistd.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/watch/trackers/tracker_options.h"
#include "accelerate/watch/trackers/values.h"

namespace accelerate {
namespace {

using detail::warn;
using Json = nlohmann::ordered_json;

// Limits of the server (mlflow 3.17, `mlflow/utils/validation.py`).
constexpr std::size_t kMostMetrics = 1000;        // In a request.
constexpr std::size_t kMostParams = 100;          // In a request.
constexpr std::size_t kMostBatchBytes = 900'000;  // 1,000,000 are allowed.
constexpr std::size_t kMostParamBytes = 6000;

std::int64_t now_ms() {
  return static_cast<std::int64_t>(detail::seconds_since_epoch() * 1000);
}

std::string artifact_path(const char* folder, const std::string& name,
                          std::optional<std::int64_t> step, const char* extension) {
  return std::string(folder) + "/" + detail::file_name_part(name) + "/step_" +
         std::to_string(step.value_or(0)) + extension;
}

// Formats the table as mlflow.log_table does. Numbers stay numbers, other values become text.
std::string mlflow_table(const TrackerTable& table) {
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
  return detail::json_text(Json{{"columns", table.columns}, {"data", std::move(data)}});
}

void warn_left_out(const detail::MlflowRefused& error) {
  warn("the MLflow server refused a part of what was logged, which is left out: " +
       std::string(error.what()));
}

}  // namespace

MlflowTracker::MlflowTracker(const TrackerSetup& setup,
                             std::unique_ptr<detail::HttpTransport> transport)
    : MlflowTracker(detail::mlflow_options(setup), std::move(transport)) {}

MlflowTracker::MlflowTracker(detail::MlflowOptions settings,
                             std::unique_ptr<detail::HttpTransport> transport)
    : settings_(std::move(settings)),
      transport_(std::move(transport)),
      process_(::getpid()),
      batch_limit_(kMostMetrics) {
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
  drain(false);
  const std::string lost = losses();
  warn("the tracker 'mlflow' ended without end_training(): the run is left open on the server" +
       (lost.empty() ? "" : "; " + lost));
}

void MlflowTracker::start() {
  start_time_ms_ = now_ms();
  thread_ = std::thread([this] { run(); });
}

void MlflowTracker::store_init_configuration(const ConfigMap& config) {
  for (const auto& setting : detail::flatten(config)) {
    const std::string text = detail::setting_text(setting);
    if (text.size() > kMostParamBytes) {
      detail::warn_once("the setting '" + setting.name +
                        "' is longer than the 6000 bytes that MLflow keeps; its beginning is kept");
    }
    add(values_, "params",
        detail::json_text(Json{{"key", detail::mlflow_key(setting.name)},
                               {"value", fit_bytes(text, kMostParamBytes)}}));
  }
}

void MlflowTracker::log(const TrackerValues& values, std::optional<std::int64_t> step) {
  const auto time = now_ms();
  const auto add_metric = [&](const std::string& name, double value) {
    add(values_, "metrics",
        detail::json_text(Json{{"key", detail::mlflow_key(name)},
                               {"value", detail::json_number(value)},
                               {"timestamp", time},
                               {"step", step.value_or(0)}}));
  };
  for (const auto& [name, value] : values) {
    const auto& data = value.as_variant();
    if (const auto* real = std::get_if<double>(&data)) {
      add_metric(name, *real);
    } else if (const auto* whole = std::get_if<std::int64_t>(&data)) {
      add_metric(name, static_cast<double>(*whole));
    } else if (const auto* several = std::get_if<Scalars>(&data)) {
      for (const auto& [part, one] : *several) add_metric(name + "/" + part, one);
    } else {
      detail::warn_once("the tracker 'mlflow' keeps numbers only; '" + name + "' is left out");
    }
  }
}

void MlflowTracker::log_images(const TrackerImages& images, std::optional<std::int64_t> step) {
  for (const auto& [name, image] : images) {
    add(files_, artifact_path("images", name, step, ".png"), detail::encode_image(name, image).png);
  }
}

void MlflowTracker::log_table(const std::string& name, const TrackerTable& table,
                              std::optional<std::int64_t> step) {
  add(files_, artifact_path("tables", name, step, ".json"), mlflow_table(table));
}

std::string MlflowTracker::run_id() const {
  const std::lock_guard lock(mutex_);
  return run_id_;
}

// Returns at once: what finds no room in memory is dropped, and counted.
void MlflowTracker::add(detail::MlflowQueue& queue, std::string name, std::string content) {
  detail::check_run_is_under_way(thread_.joinable(), this->name());
  if (process_ != ::getpid()) return;
  detail::MlflowQueue::Entry entry{std::move(name), std::move(content)};
  {
    const std::lock_guard lock(mutex_);
    if (queue.bytes == 0 || queue.bytes + entry.bytes() <= settings_.most_waiting_bytes) {
      queue.bytes += entry.bytes();
      queue.entries.push_back(std::move(entry));
      if (is_crowded()) changed_->notify_all();
      return;
    }
    if (queue.dropped++ > 0) return;
  }
  warn("the tracker 'mlflow' has " + std::to_string(settings_.most_waiting_bytes) +
       " bytes waiting for the server, which is all that it keeps; what is logged from now on is "
       "lost until the server takes them");
}

// Runs on the sending thread: rounds of sending, with pauses between them.
void MlflowTracker::run() {
  detail::MlflowClient client(*transport_, settings_);
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    const bool was_finishing = is_finishing_;
    const bool ends_run = must_end_run_;
    lock.unlock();
    auto pause = send_round(client, ends_run);
    lock.lock();
    if (was_finishing && (failures_ == 0 || is_abandoned_)) break;
    // At the end there is no time for long pauses.
    if (is_finishing_) pause = std::min(pause, settings_.first_retry);
    changed_->wait_for(lock, pause, [&] {
      return is_stopped_ || is_finishing_ != was_finishing || (is_crowded() && failures_ == 0);
    });
  }
  is_done_ = true;
  changed_->notify_all();
}

// Sends all that waits. Returns the pause before the next round.
std::chrono::milliseconds MlflowTracker::send_round(detail::MlflowClient& client, bool ends_run) {
  try {
    if (run_id().empty()) {
      const std::string id = client.make_run(start_time_ms_);
      const std::lock_guard lock(mutex_);
      run_id_ = id;
    }
    std::exception_ptr failure;  // Of a file, which neither values nor the end of the run await.
    do {
      while (send_values(client)) {
      }
    } while (send_file(client, failure));
    if (ends_run) end_run(client);
    if (failure) std::rethrow_exception(failure);
  } catch (const detail::MlflowUnavailable& error) {
    return report_failure(error.what(), error.retry_after());
  } catch (const std::exception& error) {
    return report_failure(error.what(), {});
  }
  if (std::exchange(failures_, 0) > 0)
    warn("the MLflow server " + settings_.server + " answers again");
  return settings_.flush_interval;
}

// Sends the oldest values of one kind, as many as a request may hold. Returns false if none waits.
bool MlflowTracker::send_values(detail::MlflowClient& client) {
  std::string kind, items;
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (values_.entries.empty()) return false;
    kind = values_.entries.front().name;
    const std::size_t most = std::min(batch_limit_, kind == "params" ? kMostParams : kMostMetrics);
    for (const auto& [name, content] : values_.entries) {
      if (name != kind || count == most || items.size() + content.size() >= kMostBatchBytes) break;
      if (count++ > 0) items += ',';
      items += content;
    }
  }
  try {
    client.log_batch(kind, items);
    batch_limit_ = std::min(batch_limit_ * 2, kMostMetrics);
  } catch (const detail::MlflowRefused& error) {
    batch_limit_ = std::max<std::size_t>(count / 2, 1);
    if (count > 1) return true;
    warn_left_out(error);
  }
  remove_front(values_, count);
  return true;
}

// Sends the oldest file. Returns false if none waits, or if it did not arrive: then `failure` says
// why, and the other files go first the next time.
bool MlflowTracker::send_file(detail::MlflowClient& client, std::exception_ptr& failure) {
  std::unique_lock lock(mutex_);
  if (files_.entries.empty()) return false;
  detail::MlflowQueue::Entry& file = files_.entries.front();
  lock.unlock();
  try {
    client.put_artifact(file.name, file.content);
  } catch (const detail::MlflowRefused& error) {
    warn_left_out(error);
  } catch (...) {
    failure = std::current_exception();
    lock.lock();
    files_.entries.push_back(std::move(file));
    files_.entries.pop_front();
    return false;
  }
  remove_front(files_, 1);
  return true;
}

void MlflowTracker::end_run(detail::MlflowClient& client) {
  try {
    client.end_run(end_time_ms_);
  } catch (const detail::MlflowRefused& error) {
    warn_left_out(error);
  }
  const std::lock_guard lock(mutex_);
  must_end_run_ = false;
}

void MlflowTracker::remove_front(detail::MlflowQueue& queue, std::size_t count) {
  const std::lock_guard lock(mutex_);
  for (; count > 0; --count) {
    queue.bytes -= queue.entries.front().bytes();
    queue.entries.pop_front();
  }
}

bool MlflowTracker::is_crowded() const {
  return std::max(values_.bytes, files_.bytes) > settings_.most_waiting_bytes / 4;
}

// The pause grows with each failure. The random part keeps runs that lost the server together from
// returning together.
std::chrono::milliseconds MlflowTracker::report_failure(const std::string& why,
                                                        std::chrono::milliseconds least_pause) {
  static thread_local std::minstd_rand random(std::random_device{}());
  const bool is_known = failures_++ > 0;
  const auto doubled = settings_.first_retry * (1LL << std::min(failures_ - 1, 16));
  const auto base = std::min<std::chrono::milliseconds>(doubled, settings_.longest_retry);
  const auto pause = base / 2 + std::chrono::milliseconds(random() % (base.count() + 1));
  if (!is_known && !is_stopped_) {
    warn("the MLflow server " + settings_.server + " cannot be used: " + why +
         ". Training continues; what is logged waits in memory and is sent when the server answers "
         "again.");
  }
  return std::max(least_pause, pause);
}

void MlflowTracker::finish() {
  detail::check_run_is_under_way(thread_.joinable(), name());
  if (process_ != ::getpid()) return;
  drain(true);
  const std::string lost = losses();
  if (lost.empty()) return;
  warn("not all that was logged has reached the MLflow server " + settings_.server + ": " + lost);
}

// Gives the server finish_timeout to take what waits, then stops the sending thread.
void MlflowTracker::drain(bool ends_run) {
  {
    std::unique_lock lock(mutex_);
    is_finishing_ = true;
    must_end_run_ = ends_run;
    is_abandoned_ = !ends_run;
    end_time_ms_ = now_ms();
    changed_->notify_all();
    changed_->wait_for(lock, settings_.finish_timeout, [this] { return is_done_; });
    is_stopped_ = true;
    changed_->notify_all();
  }
  transport_->cancel();
  thread_.join();
}

std::string MlflowTracker::losses() const {
  std::vector<std::string> parts;
  const auto add_part = [&](const detail::MlflowQueue& queue, const char* what) {
    const std::size_t count = queue.entries.size() + queue.dropped;
    if (count > 0) parts.push_back(count_of(count, what) + (count == 1 ? " is lost" : " are lost"));
  };
  add_part(values_, "value");
  add_part(files_, "file");
  if (must_end_run_)
    parts.emplace_back(run_id_.empty() ? "the run was not made" : "the run is left open");
  return join(parts, ", ");
}

}  // namespace accelerate
