// Logs to an MLflow server over its REST API, as `accelerate.tracking.MLflowTracker` does through
// Python's client. A server that is slow, down or unreachable does not stop the training: what is
// logged waits in memory, which is bounded, and a separate thread sends it. See docs/tracking.md.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/base/http/http.h"
#include "accelerate/watch/trackers/general_tracker.h"

namespace accelerate {
namespace detail {

struct MlflowOptions {
  std::string server = {};       ///< "https://host:port", without a slash at the end.
  std::string experiment = {};   ///< Its name.
  std::string run_name = {};     ///< "": the server chooses one.
  std::string run_id = {};       ///< The run to continue; "" for a new run.
  std::string description = {};  ///< "" for none.
  ConfigMap tags = {};           ///< Plain values.
  HttpOptions http = {};
  /// How long values may wait before they are sent.
  std::chrono::milliseconds flush_interval{1000};
  /// How long finish() waits for the server.
  std::chrono::milliseconds finish_timeout{10'000};
  /// Doubled with each failure, plus or minus half.
  std::chrono::milliseconds first_retry{500};
  std::chrono::milliseconds longest_retry{30'000};
  /// How many bytes of values may wait, and as many bytes of files. A single larger file is
  /// accepted if no other waits.
  std::size_t most_waiting_bytes = 32 << 20;
};

/// Reads the settings from the options and the environment, which takes precedence. Throws
/// ConfigError if there is no server, its address is not http(s) or contains a password, or an
/// option is unknown.
[[nodiscard]] MlflowOptions mlflow_options(const TrackerSetup& setup);

/// Whether the options or the environment name a server, valid or not.
[[nodiscard]] bool names_mlflow_server(const TrackerSetup& setup);

/// Returns `name` as the server accepts it: letters, digits, '_', '-', '.', ' ', ':', '/', at most
/// 250 bytes, and no path that leads elsewhere.
[[nodiscard]] std::string mlflow_key(const std::string& name);

/// The server understood the request and refuses it: it would refuse it again.
class MlflowRefused : public NetworkError {
 public:
  explicit MlflowRefused(const std::string& what, int status = 0)
      : NetworkError(what), status_(status) {}
  [[nodiscard]] int status() const { return status_; }

 private:
  int status_;
};

/// The server, or the way to it, fails: the same request may succeed later.
class MlflowUnavailable : public NetworkError {
 public:
  MlflowUnavailable(const std::string& what, std::optional<std::chrono::seconds> retry_after)
      : NetworkError(what), retry_after_(retry_after.value_or(std::chrono::seconds(0))) {}
  [[nodiscard]] std::chrono::seconds retry_after() const { return retry_after_; }

 private:
  std::chrono::seconds retry_after_;
};

/// Speaks MLflow's REST API (version 2.0) about one run. A request may be sent again, but takes
/// effect once. All calls throw MlflowRefused, MlflowUnavailable and NetworkError.
class MlflowClient {
 public:
  /// `transport` and `settings` must outlive it.
  MlflowClient(HttpTransport& transport, const MlflowOptions& settings);

  /// Makes the run, or continues the run that the settings name. Returns its id. A second call
  /// finds the run of the first call if the answer was lost.
  std::string make_run(std::int64_t start_time_ms);
  /// Logs `items`: JSON objects separated by commas. `kind` is "metrics" or "params".
  void log_batch(const std::string& kind, const std::string& items);
  void put_artifact(const std::string& path, const std::string& content);
  void end_run(std::int64_t end_time_ms);

 private:
  using Json = nlohmann::ordered_json;

  Json call(HttpRequest request);
  Json post(const std::string& endpoint, const Json& body);
  std::string find_experiment();  // Its id; "" if none.
  std::string experiment_id();
  std::string take_run(const Json& answer, const std::string& at);

  HttpTransport& transport_;
  const MlflowOptions& settings_;
  const std::string key_;  // Random; a tag of the run, by which it is found again.
  bool is_attempted_ = false;
  std::string run_id_;
  std::string artifact_root_;  // "7/abc/artifacts" if the server takes files, else "".
};

/// What waits for the server, oldest first.
struct MlflowQueue {
  struct Entry {
    std::string name;  ///< "metrics", "params" or the path of an artifact.
    std::string content;
    [[nodiscard]] std::size_t bytes() const { return sizeof(Entry) + content.size(); }
  };
  std::deque<Entry> entries;
  std::size_t bytes = 0;
  std::size_t dropped = 0;  ///< Found no room.
};
}  // namespace detail

class MlflowTracker final : public GeneralTracker {
 public:
  /// Options: tracking_uri, experiment_name (default: the project's), run_name, run_id,
  /// description, tags, flush_secs (1), finish_timeout_secs (10). `transport` is the network; null
  /// means libcurl. Throws ConfigError as mlflow_options does.
  explicit MlflowTracker(const TrackerSetup& setup,
                         std::unique_ptr<detail::HttpTransport> transport = nullptr);
  MlflowTracker(detail::MlflowOptions settings, std::unique_ptr<detail::HttpTransport> transport);
  /// Without finish(): tries once to send what waits, and leaves the run open, with a warning.
  ~MlflowTracker() override;

  [[nodiscard]] std::string name() const override { return "mlflow"; }
  void start() override;
  /// Logs the parameters of the run; nested settings become "optimizer.lr". Values longer than
  /// 6000 bytes are cut, with a warning.
  void store_init_configuration(const ConfigMap& config) override;
  /// Logs metrics; Scalars become <name>/<part>. Texts and histograms are left out, with a
  /// warning. Never waits for the network.
  void log(const TrackerValues& values, std::optional<std::int64_t> step) override;
  /// Logs PNG files among the run's artifacts: images/<name>/step_<step>.png.
  void log_images(const TrackerImages& images, std::optional<std::int64_t> step) override;
  /// Logs tables/<name>/step_<step>.json, in the form of mlflow.log_table.
  void log_table(const std::string& name, const TrackerTable& table,
                 std::optional<std::int64_t> step) override;
  /// Ends the run. Waits for the server for at most finish_timeout. A warning counts what was not
  /// sent.
  void finish() override;

  /// The id of the run; "" until the server has made it. Thread-safe.
  [[nodiscard]] std::string run_id() const;

 private:
  void add(detail::MlflowQueue& queue, std::string name, std::string content);
  void run();
  std::chrono::milliseconds send_round(detail::MlflowClient& client, bool ends_run);
  bool send_values(detail::MlflowClient& client);
  bool send_file(detail::MlflowClient& client, std::exception_ptr& failure);
  void end_run(detail::MlflowClient& client);
  void remove_front(detail::MlflowQueue& queue, std::size_t count);
  [[nodiscard]] bool is_crowded() const;
  std::chrono::milliseconds report_failure(const std::string& why,
                                           std::chrono::milliseconds least_pause);
  void drain(bool ends_run);
  [[nodiscard]] std::string losses() const;

  const detail::MlflowOptions settings_;
  std::unique_ptr<detail::HttpTransport> transport_;
  const pid_t process_;

  mutable std::mutex mutex_;
  std::unique_ptr<std::condition_variable> changed_ = std::make_unique<std::condition_variable>();
  detail::MlflowQueue values_, files_;  // Guarded by mutex_, as are the next seven.
  std::string run_id_;
  std::int64_t start_time_ms_ = 0, end_time_ms_ = 0;
  bool is_finishing_ = false;  // Nothing more is logged.
  bool must_end_run_ = false;  // The end of the run is still to be sent.
  bool is_abandoned_ = false;  // One more round, whether or not it succeeds.
  bool is_done_ = false;       // The sending thread is at its end.
  std::atomic<bool> is_stopped_ = false;

  // Used by the sending thread only.
  int failures_ = 0;         // Rounds that failed since the last good one.
  std::size_t batch_limit_;  // Halved when a batch is refused, to find what the server refuses.
  std::thread thread_;
};

}  // namespace accelerate
