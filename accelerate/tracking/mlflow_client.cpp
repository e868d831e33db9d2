#include "accelerate/tracking/mlflow_client.h"

#include <nlohmann/json.hpp>

#include "accelerate/base/base64.h"
#include "accelerate/base/utf8.h"
#include "accelerate/http/url.h"
#include "accelerate/tracking/mlflow_entries.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kApi = "/api/2.0/mlflow/";
constexpr const char* kSpoolTag = "accelerate.spool_id";

bool is_transient(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

// Whether the answer is MLflow's: refusals are a JSON object with an error_code. Other answers come
// from something in between: a proxy whose server is down, or a portal that wants a password.
bool is_from_mlflow(const HttpResponse& response) {
  const Json body = Json::parse(response.body, nullptr, false);
  return body.is_object() && body.contains("error_code");
}

// Returns the beginning of the server's text, which is not ours, in one line.
std::string message_of(const HttpResponse& response) {
  constexpr std::size_t kMost = 300;
  const Json body = Json::parse(response.body, nullptr, false);
  std::string text = response.body;
  if (body.is_object() && body.contains("message") && body["message"].is_string()) {
    text = body["message"].get<std::string>();
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return std::string(fit_bytes(text, kMost));
}

std::string field(const Json& object, std::initializer_list<const char*> path) {
  const Json* at = &object;
  for (const char* key : path) {
    if (!at->is_object() || !at->contains(key)) return "";
    at = &(*at)[key];
  }
  return at->is_string() ? at->get<std::string>() : "";
}

Json parsed(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    throw MlflowUnavailable("the answer is no JSON object, so no MLflow server's");
  return json;
}

void take_run(const Json& run, MlflowRemote& remote) {
  constexpr std::string_view kScheme = "mlflow-artifacts:/";
  remote.run_id = field(run, {"info", "run_id"});
  if (remote.run_id.empty())
    throw MlflowUnavailable("the answer names no run, so it is no MLflow server's");
  const std::string uri = field(run, {"info", "artifact_uri"});
  // Other schemes name a store that only the server's own clients can write to.
  if (uri.starts_with(kScheme) && !uri.starts_with("mlflow-artifacts://")) {
    remote.artifact_root = uri.substr(kScheme.size());
  }
}

Json run_request(const Json& entry, const std::string& experiment) {
  Json tags = entry.at("tags");
  tags.push_back({{"key", kSpoolTag}, {"value", entry.at("spool_id")}});
  tags.push_back({{"key", "mlflow.source.type"}, {"value", "LOCAL"}});
  Json body = {
      {"experiment_id", experiment}, {"start_time", entry.at("start_time")}, {"tags", tags}};
  if (!field(entry, {"run_name"}).empty()) body["run_name"] = entry.at("run_name");
  return body;
}

}  // namespace

HttpResponse MlflowClient::exchange(const HttpRequest& request) {
  HttpResponse response;
  try {
    response = transport_.send(request);
  } catch (const NetworkError& error) {
    throw MlflowUnavailable(error.what());
  }
  if (response.status >= 200 && response.status < 300) {
    (void)parsed(response.body);  // Some portals answer everything with a page and status 200.
    return response;
  }
  const std::string text =
      "HTTP status " + std::to_string(response.status) + ", " + message_of(response);
  if (response.status == 401 || response.status == 403) {
    throw MlflowUnavailable(text +
                            "; set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and "
                            "MLFLOW_TRACKING_PASSWORD");
  }
  if (response.status >= 300 && response.status < 400) {
    throw MlflowUnavailable(
        text + "; redirects are not followed: set MLFLOW_TRACKING_URI to where it leads");
  }
  if (is_transient(response.status)) throw MlflowUnavailable(text, response.retry_after);
  constexpr int kTooLarge = 413;  // A proxy that refuses the size will always refuse it.
  if (!is_from_mlflow(response) && response.status != kTooLarge) {
    throw MlflowUnavailable(text + "; no MLflow server says that: is MLFLOW_TRACKING_URI right?");
  }
  if (response.status == 404 || response.status == 400) return response;
  throw MlflowRefused(text);
}

std::string MlflowClient::call(const std::string& method, const std::string& endpoint,
                               const std::string& body) {
  const HttpResponse response = exchange({method, server_ + kApi + endpoint, body});
  if (response.status < 300) return response.body;
  throw MlflowRefused("HTTP status " + std::to_string(response.status) + ", " +
                      message_of(response));
}

std::string MlflowClient::find_experiment(const std::string& name) {
  const HttpResponse found = exchange(
      {"GET", server_ + kApi + "experiments/get-by-name?experiment_name=" + url_escape(name), ""});
  if (found.status == 404) return "";
  if (found.status >= 300) throw MlflowRefused(message_of(found));
  const Json answer = parsed(found.body);
  if (field(answer, {"experiment", "lifecycle_stage"}) == "deleted") {
    throw MlflowRefused("the experiment '" + name +
                        "' was deleted on the server; restore it there, or choose another name");
  }
  return field(answer, {"experiment", "experiment_id"});
}

std::string MlflowClient::experiment_id(const std::string& name) {
  if (std::string id = find_experiment(name); !id.empty()) return id;
  try {
    return field(parsed(call("POST", "experiments/create", Json({{"name", name}}).dump())),
                 {"experiment_id"});
  } catch (const MlflowRefused&) {  // Another run may have made it meanwhile.
    if (std::string id = find_experiment(name); !id.empty()) return id;
    throw;
  }
}

bool MlflowClient::find_run(const std::string& experiment, const std::string& spool_id,
                            MlflowRemote& remote) {
  const Json body = {{"experiment_ids", {experiment}},
                     {"filter", "tags.`" + std::string(kSpoolTag) + "` = '" + spool_id + "'"},
                     {"max_results", 1}};
  const Json answer = parsed(call("POST", "runs/search", body.dump()));
  if (!answer.contains("runs") || !answer["runs"].is_array() || answer["runs"].empty())
    return false;
  take_run(answer["runs"][0], remote);
  return true;
}

void MlflowClient::make_run(const std::string& line, MlflowRemote& remote) {
  if (!remote.run_id.empty()) return;  // Already made; the spool begins anew.
  const Json entry = Json::parse(line);
  const std::string run_id = entry.at("run_id");
  if (!run_id.empty()) {
    const Json running = {{"run_id", run_id}, {"status", "RUNNING"}};
    call("POST", "runs/update", running.dump());
    const Json tags = {{"run_id", run_id}, {"tags", entry.at("tags")}};
    if (!entry.at("tags").empty()) call("POST", "runs/log-batch", tags.dump());
    take_run(parsed(call("GET", "runs/get?run_id=" + url_escape(run_id), "")).value("run", Json()),
             remote);
    return;
  }
  const std::string experiment = experiment_id(entry.at("experiment"));
  if (remote.attempted && find_run(experiment, entry.at("spool_id"), remote)) return;
  remote.attempted = true;
  const std::string answer = call("POST", "runs/create", run_request(entry, experiment).dump());
  take_run(parsed(answer).value("run", Json()), remote);
}

void MlflowClient::put_artifact(const std::string& path, const std::string& content,
                                const MlflowRemote& remote) {
  if (remote.artifact_root.empty()) {
    throw MlflowRefused(
        "the server takes no files over HTTP (it was started with --no-serve-artifacts)");
  }
  const HttpResponse response = exchange({"PUT",
                                          server_ + "/api/2.0/mlflow-artifacts/artifacts/" +
                                              url_escape(remote.artifact_root + "/" + path, "/"),
                                          content, "application/octet-stream"});
  if (response.status >= 300) throw MlflowRefused(message_of(response));
}

void MlflowClient::deliver(const std::string& line, MlflowRemote& remote) {
  Json entry = Json::parse(line, nullptr, false);
  try {
    const std::string kind = entry.at("kind");
    if (kind == "run") {
      make_run(line, remote);
    } else if (kind == "artifact") {
      put_artifact(entry.at("path"), from_base64(entry.at("content").get<std::string>()), remote);
    } else {
      entry.erase("kind");
      entry["run_id"] = remote.run_id;
      call("POST", kind == "end" ? "runs/update" : "runs/log-batch", entry.dump());
    }
  } catch (const Json::exception& error) {
    throw MlflowRefused(std::string("a line of the spool is damaged: ") + error.what());
  } catch (const ConfigError& error) {
    throw MlflowRefused(std::string("a line of the spool is damaged: ") + error.what());
  }
}

void MlflowClient::end_killed(const MlflowRemote& remote, std::int64_t time_ms) {
  if (remote.run_id.empty()) return;
  const Json body = {{"run_id", remote.run_id}, {"status", "KILLED"}, {"end_time", time_ms}};
  call("POST", "runs/update", body.dump());
}

MlflowGroup next_group(std::string_view text, bool one_line_only) {
  MlflowGroup group;
  Json metrics = Json::array();
  for (;;) {
    const auto end = text.find('\n', group.bytes);
    if (end == std::string_view::npos) break;
    const std::string_view line = text.substr(group.bytes, end + 1 - group.bytes);
    const Json entry = Json::parse(line, nullptr, false);
    const bool is_metrics =
        entry.is_object() && entry.contains("metrics") && entry["metrics"].is_array();
    if (group.lines == 0 && (!is_metrics || one_line_only))
      return {std::string(line), line.size(), 1};
    if (!is_metrics || metrics.size() + entry["metrics"].size() > MlflowLimits::kMetrics ||
        group.bytes + line.size() > MlflowLimits::kRequestBytes) {
      break;
    }
    for (const auto& metric : entry["metrics"]) metrics.push_back(metric);
    group.bytes += line.size();
    ++group.lines;
  }
  if (group.lines > 0) group.line = Json({{"kind", "batch"}, {"metrics", metrics}}).dump();
  return group;
}

}  // namespace accelerate::detail
