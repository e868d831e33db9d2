#include <cctype>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "accelerate/base/http/url.h"
#include "accelerate/base/text.h"
#include "accelerate/base/utf8.h"
#include "accelerate/formats/documents/json.h"
#include "accelerate/watch/trackers/mlflow_tracker.h"

namespace accelerate::detail {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kApi = "/api/2.0/mlflow/";
constexpr const char* kKeyTag = "accelerate.run_key";

std::string random_key() {
  std::random_device random;
  return std::to_string(random()) + "-" + std::to_string(random()) + "-" + std::to_string(random());
}

std::string text_at(const Json& answer, const std::string& pointer) {
  return answer.value(Json::json_pointer(pointer), std::string());
}

// Returns the beginning of the server's text, which is not ours, in one line.
std::string message_of(const HttpResponse& response, const Json& body) {
  constexpr std::size_t kMost = 300;
  std::string text = body.is_object() && body.contains("message") && body["message"].is_string()
                         ? body["message"].get<std::string>()
                         : response.body;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return "HTTP status " + std::to_string(response.status) + ", " +
         std::string(fit_bytes(text, kMost));
}

bool is_transient(int status) {
  return status == 408 || status == 425 || status == 429 || status >= 500;
}

// Whether MLflow itself refuses for good, in a JSON object with an error_code. Other answers come
// from something in between: a proxy whose server is down, or a portal that wants a password.
bool is_refusal(int status, const Json& body) {
  if (status == 413) return true;  // A proxy that refuses the size will always refuse it.
  return status >= 400 && status != 401 && status != 403 && !is_transient(status) &&
         body.is_object() && body.contains("error_code");
}

std::string cure_of(int status) {
  if (status == 401 || status == 403) {
    return "; set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD";
  }
  if (status >= 300 && status < 400)
    return "; redirects are not followed: set MLFLOW_TRACKING_URI to where it leads";
  if (is_transient(status)) return "";
  return "; no MLflow server says that: is MLFLOW_TRACKING_URI right?";
}

Json tag(const std::string& key, std::string_view value) {
  constexpr std::size_t kMost = 8000;  // mlflow/utils/validation.py
  return {{"key", key}, {"value", fit_bytes(value, kMost)}};
}

Json tags_of(const MlflowOptions& settings) {
  Json tags = Json::array();
  for (const auto& one : flatten(settings.tags))
    tags.push_back(tag(mlflow_key(one.name), setting_text(one)));
  if (!settings.description.empty())
    tags.push_back(tag("mlflow.note.content", settings.description));
  return tags;
}

}  // namespace

MlflowClient::MlflowClient(HttpTransport& transport, const MlflowOptions& settings)
    : transport_(transport), settings_(settings), key_(random_key()) {}

MlflowClient::Json MlflowClient::call(HttpRequest request) {
  request.url.insert(0, settings_.server);
  const HttpResponse response = transport_.send(request);
  Json body = parse_json(response.body);
  if (response.status < 200 || response.status >= 300) {
    const std::string text = message_of(response, body);
    if (is_refusal(response.status, body)) throw MlflowRefused(text, response.status);
    throw MlflowUnavailable(text + cure_of(response.status), response.retry_after);
  }
  if (body.is_object()) return body;
  // Some portals answer everything with a page and status 200.
  throw NetworkError("the answer is not a JSON object, so it is not an MLflow server's");
}

MlflowClient::Json MlflowClient::post(const std::string& endpoint, const Json& body) {
  return call({"POST", kApi + endpoint, json_text(body)});
}

std::string MlflowClient::find_experiment() {
  Json answer;
  try {
    answer = call({"GET", std::string(kApi) + "experiments/get-by-name?experiment_name=" +
                              url_escape(settings_.experiment)});
  } catch (const MlflowRefused& error) {
    if (error.status() == 404) return "";
    throw;
  }
  if (text_at(answer, "/experiment/lifecycle_stage") == "deleted") {
    throw MlflowRefused("the experiment '" + settings_.experiment +
                        "' was deleted on the server; restore it there, or choose another name");
  }
  return text_at(answer, "/experiment/experiment_id");
}

std::string MlflowClient::experiment_id() {
  if (std::string id = find_experiment(); !id.empty()) return id;
  try {
    return text_at(post("experiments/create", {{"name", settings_.experiment}}), "/experiment_id");
  } catch (const MlflowRefused&) {  // Another run may have made it meanwhile.
    if (std::string id = find_experiment(); !id.empty()) return id;
    throw;
  }
}

std::string MlflowClient::take_run(const Json& answer, const std::string& at) {
  constexpr std::string_view kScheme = "mlflow-artifacts:/";
  const std::string run_id = text_at(answer, at + "/info/run_id");
  if (run_id.empty())
    throw NetworkError("the answer names no run, so it is not an MLflow server's");
  const std::string uri = text_at(answer, at + "/info/artifact_uri");
  // Other schemes name a store that only the server's own clients can write to.
  if (uri.starts_with(kScheme) && !uri.starts_with("mlflow-artifacts://"))
    artifact_root_ = uri.substr(kScheme.size());
  return run_id_ = run_id;
}

std::string MlflowClient::make_run(std::int64_t start_time_ms) {
  Json tags = tags_of(settings_);
  if (const std::string& id = settings_.run_id; !id.empty()) {
    post("runs/update", {{"run_id", id}, {"status", "RUNNING"}});
    if (!tags.empty()) post("runs/log-batch", {{"run_id", id}, {"tags", tags}});
    return take_run(call({"GET", kApi + ("runs/get?run_id=" + url_escape(id))}), "/run");
  }
  const std::string experiment = experiment_id();
  if (std::exchange(is_attempted_, true)) {
    const std::string filter = std::string("tags.`") + kKeyTag + "` = '" + key_ + "'";
    const Json found = post(
        "runs/search",
        {{"experiment_ids", Json::array({experiment})}, {"filter", filter}, {"max_results", 1}});
    if (found.contains(Json::json_pointer("/runs/0"))) return take_run(found, "/runs/0");
  }
  tags.push_back(tag(kKeyTag, key_));
  tags.push_back(tag("mlflow.source.type", "LOCAL"));
  Json body = {{"experiment_id", experiment}, {"start_time", start_time_ms}, {"tags", tags}};
  if (!settings_.run_name.empty()) body["run_name"] = settings_.run_name;
  return take_run(post("runs/create", body), "/run");
}

void MlflowClient::log_batch(const std::string& kind, const std::string& items) {
  call({"POST", kApi + std::string("runs/log-batch"),
        R"({"run_id":)" + json_string(run_id_) + R"(,")" + kind + R"(":[)" + items + "]}"});
}

void MlflowClient::put_artifact(const std::string& path, const std::string& content) {
  if (artifact_root_.empty()) {
    throw MlflowRefused(
        "the server takes no files over HTTP (it was started with --no-serve-artifacts)");
  }
  call({"PUT",
        "/api/2.0/mlflow-artifacts/artifacts/" + url_escape(artifact_root_ + "/" + path, "/"),
        content, "application/octet-stream"});
}

void MlflowClient::end_run(std::int64_t end_time_ms) {
  post("runs/update", {{"run_id", run_id_}, {"status", "FINISHED"}, {"end_time", end_time_ms}});
}

std::string mlflow_key(const std::string& name) {
  constexpr std::size_t kMost = 250;
  std::string key = name;
  for (char& c : key) {
    const auto byte = static_cast<unsigned char>(c);
    const bool allowed = (byte < 0x80 && std::isalnum(byte) != 0) ||
                         std::string_view("_-. :/").find(c) != std::string::npos;
    if (!allowed) c = '_';
  }
  // The server refuses names that a path would normalise: "a//b", "/a", "a/../b", "a/".
  std::vector<std::string> parts;
  for (const auto& part : split(key, '/')) {
    if (!part.empty()) parts.push_back(part == "." || part == ".." ? "_" : part);
  }
  key = join(parts, "/").substr(0, kMost);
  while (key.ends_with('/')) key.pop_back();
  return key.empty() ? "_" : key;
}

}  // namespace accelerate::detail
