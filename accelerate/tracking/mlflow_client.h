// Speaks MLflow's REST API (version 2.0). Sends the lines of a spool to a server; a line may be
// sent again, but takes effect once.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/http/http.h"

namespace accelerate::detail {

/// The server, or the way to it, fails: the same request may succeed later.
class MlflowUnavailable : public NetworkError {
 public:
  explicit MlflowUnavailable(const std::string& what,
                             std::optional<std::chrono::seconds> retry_after = std::nullopt)
      : NetworkError(what), retry_after_(retry_after) {}
  [[nodiscard]] std::optional<std::chrono::seconds> retry_after() const { return retry_after_; }

 private:
  std::optional<std::chrono::seconds> retry_after_;
};

/// The server understood the request and refuses it: it would refuse it again.
class MlflowRefused : public NetworkError {
 public:
  using NetworkError::NetworkError;
};

/// What is known of a run on the server.
struct MlflowRemote {
  std::string run_id;         ///< "" until the run is made.
  std::string artifact_root;  ///< "7/abc/artifacts" if the server takes files, else "".
  bool attempted = false;     ///< Making the run was tried; the answer may be lost.
};

class MlflowClient {
 public:
  /// `server` is "https://host:port", without a slash at the end.
  MlflowClient(HttpTransport& transport, std::string server)
      : transport_(transport), server_(std::move(server)) {}

  /// Carries out a line of a spool. Throws MlflowUnavailable and MlflowRefused.
  void deliver(const std::string& line, MlflowRemote& remote);
  /// Marks a run as KILLED if its process ended without ending the run.
  void end_killed(const MlflowRemote& remote, std::int64_t time_ms);

  [[nodiscard]] const std::string& server() const { return server_; }

 private:
  std::string call(const std::string& method, const std::string& endpoint, const std::string& body);
  HttpResponse exchange(const HttpRequest& request);
  std::string find_experiment(const std::string& name);  // Its id; "" if none.
  std::string experiment_id(const std::string& name);
  void make_run(const std::string& line, MlflowRemote& remote);
  bool find_run(const std::string& experiment, const std::string& spool_id, MlflowRemote& remote);
  void put_artifact(const std::string& path, const std::string& content,
                    const MlflowRemote& remote);

  HttpTransport& transport_;
  std::string server_;
};

/// Several lines from the beginning of `text`, joined into one line for one request, and the number
/// of their bytes. Only metrics are joined. 0 bytes if `text` has no whole line.
struct MlflowGroup {
  std::string line;
  std::size_t bytes = 0;
  int lines = 0;
};
[[nodiscard]] MlflowGroup next_group(std::string_view text, bool one_line_only);

}  // namespace accelerate::detail
