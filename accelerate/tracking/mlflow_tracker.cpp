#include "accelerate/tracking/mlflow_tracker.h"

#include <nlohmann/json.hpp>
#include <random>

#include "accelerate/base/error.h"
#include "accelerate/base/logger.h"
#include "accelerate/tracking/clock.h"
#include "accelerate/tracking/mlflow_client.h"
#include "accelerate/tracking/mlflow_spool.h"
#include "accelerate/tracking/summaries.h"
#include "accelerate/tracking/text_table.h"
#include "accelerate/tracking/tracker_options.h"

namespace accelerate {
namespace {

std::int64_t now_ms() {
  return static_cast<std::int64_t>(detail::seconds_since_epoch() * 1000);
}

void warn(const std::string& text) {
  get_logger("accelerate.tracking").warning(text, {.main_process_only = false});
}

std::string artifact_path(const char* folder, const std::string& name,
                          std::optional<std::int64_t> step, const char* extension) {
  return std::string(folder) + "/" + detail::file_name_part(name) + "/step_" +
         std::to_string(step.value_or(0)) + extension;
}

// As mlflow.log_table writes it. Numbers stay numbers, other values become text.
std::string table_json(const TrackerTable& table) {
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
    : settings_(std::move(settings)), transport_(std::move(transport)) {
  if (!transport_) transport_ = detail::make_http_transport(settings_.http);
  if (!transport_) {
    throw ConfigError(
        "the tracker 'mlflow' needs libcurl, without which this library was built: "
        "install it (libcurl4-openssl-dev) and build again");
  }
}

MlflowTracker::~MlflowTracker() {
  stop();
}

void MlflowTracker::start() {
  detail::make_run_folder("mlflow", real_file_system(), settings_.spool_folder);
  spool_path_ = settings_.spool_folder / (settings_.run.spool_id + ".jsonl");
  files_ = std::make_unique<detail::BackgroundFiles>(
      "the tracker 'mlflow'",
      detail::BackgroundFilesOptions{.flush_interval = settings_.flush_interval});
  append(detail::run_line(settings_.run, settings_.server));
  thread_ = std::thread([this] { run(); });
}

void MlflowTracker::append(std::string line) {
  files_->append(spool_path_, std::move(line));
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
  append(detail::artifact_line(artifact_path("tables", name, step, ".json"), table_json(table)));
}

std::string MlflowTracker::run_id() const {
  const std::lock_guard lock(mutex_);
  return run_id_;
}

// The sending thread: our own spool first, then those of runs that are gone.
void MlflowTracker::run() {
  detail::MlflowClient client(*transport_, settings_.server);
  detail::MlflowSpool own(real_file_system(), spool_path_,
                          [this](std::uint64_t offset, std::size_t max_bytes) {
                            return files_->read(spool_path_, offset, max_bytes);
                          });
  take_over_abandoned(client.server());
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) return;
    }
    try {
      if (send_available(own, client) || send_abandoned(client)) continue;
      if (own.ended()) {
        files_.reset();  // Nothing waits any more, and nothing is appended after the end.
        own.remove();
        const std::lock_guard lock(mutex_);
        done_ = true;
        changed_.notify_all();
        return;
      }
      pause(settings_.flush_interval);
    } catch (const detail::MlflowUnavailable& error) {
      report_outage(error.what());
      pause(error.retry_after().value_or(std::chrono::seconds(0)));
    } catch (const std::exception& error) {
      report_outage(error.what());
      pause({});
    }
  }
}

// One request of our own. Shows the run's id as soon as there is one.
bool MlflowTracker::send_available(detail::MlflowSpool& own, detail::MlflowClient& client) {
  if (!own.send_next(client)) return false;
  if (failures_ > 0) warn("the MLflow server " + settings_.server + " answers again");
  failures_ = 0;
  const std::lock_guard lock(mutex_);
  run_id_ = own.remote().run_id;
  return true;
}

void MlflowTracker::take_over_abandoned(const std::string& server) {
  try {
    for (const auto& path : detail::spools_in(real_file_system(), settings_.spool_folder)) {
      if (path == spool_path_) continue;
      auto spool = detail::MlflowSpool::take_over(real_file_system(), path);
      if (spool && spool->server() == server) abandoned_.push_back(std::move(*spool));
    }
  } catch (const FileError& error) {
    warn(std::string("the tracker 'mlflow' cannot look for what earlier runs left: ") +
         error.what());
  }
}

// One request of a run that is gone. Once all of it has arrived, the run is over.
bool MlflowTracker::send_abandoned(detail::MlflowClient& client) {
  if (abandoned_.empty()) return false;
  detail::MlflowSpool& spool = abandoned_.back();
  try {
    if (spool.send_next(client)) return true;
    if (!spool.ended()) client.end_killed(spool.remote(), now_ms());
    spool.remove();
  } catch (const detail::MlflowUnavailable&) {
    throw;
  } catch (const Error& error) {
    warn("'" + spool.path().string() +
         "', left by an earlier run, could not be sent and is kept: " + error.what());
  }
  abandoned_.pop_back();
  return true;
}

// Until there is something to do: after a failure longer each time, by chance so that runs which
// lost their server together do not come back together.
void MlflowTracker::pause(std::chrono::milliseconds least) {
  auto wait = least;
  std::unique_lock lock(mutex_);
  if (failures_ > 0) {
    const auto doubled = settings_.first_retry * (1LL << std::min(failures_ - 1, 16));
    const auto base = std::min<std::chrono::milliseconds>(doubled, settings_.longest_retry);
    static thread_local std::minstd_rand random(std::random_device{}());
    wait = std::max(least, base / 2 + std::chrono::milliseconds(random() % (base.count() + 1)));
    // The last moments are not for long pauses.
    if (finishing_) wait = std::min(wait, settings_.first_retry);
    changed_.wait_for(lock, wait, [this] { return stop_; });
    return;
  }
  changed_.wait_for(lock, wait, [this] { return stop_ || finishing_; });
}

void MlflowTracker::report_outage(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
  }
  if (failures_++ > 0) return;
  warn("the MLflow server " + settings_.server + " cannot be used: " + why +
       ". Training goes on; what is logged is kept in '" + spool_path_.string() +
       "' and sent when the server answers again, or by the next run.");
}

void MlflowTracker::finish() {
  append(detail::end_line(now_ms()));
  bool arrived = false;
  {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
    arrived = changed_.wait_for(lock, settings_.finish_timeout, [this] { return done_; });
  }
  stop();
  if (arrived) return;
  warn("not all that was logged has reached the MLflow server " + settings_.server + ": '" +
       spool_path_.string() +
       "' holds it, and the next run with the same server and spool folder sends it");
}

void MlflowTracker::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  transport_->cancel();
  thread_.join();
  files_.reset();  // Writes what waits.
}

}  // namespace accelerate
