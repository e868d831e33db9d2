// Logs to an MLflow server over its REST API, as `accelerate.tracking.MLflowTracker` does through
// Python's client. A server that is slow, down or unreachable does not stop the training, and
// nothing is lost. Everything goes through a spool on disk, and the next run sends what could not
// be sent. See docs/tracking.md.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "accelerate/http/http.h"
#include "accelerate/tracking/background_files.h"
#include "accelerate/tracking/general_tracker.h"
#include "accelerate/tracking/mlflow_entries.h"

namespace accelerate {

namespace detail {
class MlflowClient;
class MlflowSpool;

struct MlflowSettings {
  std::string server;  ///< "https://host:port"
  MlflowRun run;
  std::filesystem::path spool_folder;
  HttpOptions http;
  /// How long values may wait before they are sent.
  std::chrono::milliseconds flush_interval{1000};
  /// How long finish() waits for the server.
  std::chrono::milliseconds finish_timeout{10'000};
  /// Doubled with each failure, plus or minus half.
  std::chrono::milliseconds first_retry{500};
  std::chrono::milliseconds longest_retry{30'000};
};

/// Reads the settings from the options and the environment, which takes precedence. Throws
/// ConfigError if there is no server, its address is not http(s) or contains a password, or an
/// option is unknown.
[[nodiscard]] MlflowSettings mlflow_settings(const TrackerSetup& setup);

/// Whether the options or the environment name a server, valid or not.
[[nodiscard]] bool names_mlflow_server(const TrackerSetup& setup);
}  // namespace detail

class MlflowTracker final : public GeneralTracker {
 public:
  /// Options: tracking_uri, experiment_name (default: the project's), run_name, run_id,
  /// description, tags, spool_dir, flush_secs (1), finish_timeout_secs (10). `transport` is the
  /// network; null means libcurl. Throws ConfigError as mlflow_settings does.
  explicit MlflowTracker(const TrackerSetup& setup,
                         std::unique_ptr<detail::HttpTransport> transport = nullptr);
  MlflowTracker(detail::MlflowSettings settings, std::unique_ptr<detail::HttpTransport> transport);
  ~MlflowTracker() override;

  [[nodiscard]] std::string name() const override { return "mlflow"; }
  void start() override;
  /// Logs the parameters of the run; nested settings become "optimizer.lr".
  void store_init_configuration(const TrackerConfig& config) override;
  /// Logs metrics. Texts and histograms are left out, with a warning. Never waits for the network.
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override;
  /// Logs PNG files among the run's artifacts: images/<name>/step_<step>.png.
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step) override;
  /// Logs tables/<name>/step_<step>.json, in the form of mlflow.log_table.
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step) override;
  /// Ends the run. Waits for the server for at most finish_timeout. If not everything was sent, a
  /// warning names the spool that holds it.
  void finish() override;

  /// The id of the run; "" until the server has made it. Thread-safe.
  [[nodiscard]] std::string run_id() const;
  /// The file that holds the spool.
  [[nodiscard]] const std::filesystem::path& spool() const { return spool_path_; }

 private:
  void append(std::string line);
  void append(std::vector<std::string> lines);
  void run();
  [[nodiscard]] std::string read_spool(std::uint64_t offset, std::size_t max_bytes) const;
  bool send_own(detail::MlflowSpool& own, detail::MlflowClient& client);
  void conclude(detail::MlflowSpool& own);
  void take_over_abandoned();
  bool send_abandoned(detail::MlflowClient& client);
  [[nodiscard]] std::chrono::milliseconds backoff(int failures) const;
  void pause(std::chrono::milliseconds least);
  void report_outage(const std::string& why);
  void stop_sending();
  void set_flag(bool& flag);
  [[nodiscard]] bool is_stopped() const;

  detail::MlflowSettings settings_;
  std::unique_ptr<detail::HttpTransport> transport_;
  std::filesystem::path spool_path_;
  std::unique_ptr<detail::BackgroundFiles> files_;
  const pid_t process_;

  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  std::string run_id_;
  bool is_stopped_ = false;    // Guarded by mutex_, as are the next three.
  bool is_finishing_ = false;  // The end was logged; no more records follow.
  bool has_arrived_ = false;   // This run has arrived completely.
  // Also, spools of earlier runs were sent or given up for now.
  bool is_done_ = false;

  // Used by the sending thread only.
  int failures_ = 0;
  int removals_ = 0;  // Removals of the spool's file seen so far.
  std::vector<detail::MlflowSpool> abandoned_;
  int abandoned_failures_ = 0;
  std::chrono::steady_clock::time_point abandoned_pause_;
  std::thread thread_;
};

}  // namespace accelerate
