// A server of MLflow in memory, and the network to it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "accelerate/base/error.h"
#include "accelerate/watch/trackers/mlflow_tracker.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate::testing {

using detail::HttpRequest;
using detail::HttpResponse;
using detail::MlflowOptions;
using Json = nlohmann::json;

/// What it keeps, it keeps as the real one does: the same metric, time and step twice is one.
class Server {
 public:
  enum class Network { up, down, stuck, loses_answers };

  HttpResponse answer(const HttpRequest& request) {
    std::unique_lock lock(mutex_);
    ++requests;
    changed_.notify_all();
    changed_.wait(lock, [this] { return network_ != Network::stuck; });
    if (network_ == Network::down) throw NetworkError("connection refused");
    if (!forced.empty()) {
      const HttpResponse response = forced.front();
      forced.erase(forced.begin());
      return response;
    }
    const bool lose =
        network_ == Network::loses_answers && lost_.insert(request.url + request.body).second;
    HttpResponse response = handle(request);
    if (lose) throw NetworkError("connection reset");
    return response;
  }

  void set(Network network) {
    const std::lock_guard lock(mutex_);
    network_ = network;
    changed_.notify_all();
  }
  void force(std::vector<HttpResponse> answers) {
    const std::lock_guard lock(mutex_);
    forced = std::move(answers);
  }
  void wait_for_request() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return requests > 0; });
  }

  int requests = 0;
  std::atomic<bool> takes_artifacts = true;
  std::atomic<bool> is_overtaken = false;  // Someone else makes the experiment in between.
  std::vector<HttpResponse> forced;        // Answers to the next requests, whatever they are.
  std::vector<std::size_t> metric_batches, param_batches;
  struct Run {
    std::string status = "RUNNING";
    std::set<std::string> metrics;  // "key@step=value"
    std::map<std::string, std::string> params, tags;
  };
  std::map<std::string, Run> runs;
  std::map<std::string, std::string> artifacts;

 private:
  static HttpResponse ok(const Json& body) { return {200, body.dump(), {}}; }
  static HttpResponse refusal(int status, const char* message) {
    return {status, Json({{"error_code", "REFUSED"}, {"message", message}}).dump(), {}};
  }
  static Json run_json(const std::string& id) {
    return {{"run",
             {{"info",
               {{"run_id", id}, {"artifact_uri", "mlflow-artifacts:/1/" + id + "/artifacts"}}}}}};
  }

  HttpResponse handle(const HttpRequest& request) {
    const auto has = [&](const char* part) { return request.url.find(part) != std::string::npos; };
    if (has("mlflow-artifacts")) {
      if (!takes_artifacts) return {500, "<html>no room</html>", {}};
      artifacts[request.url.substr(request.url.find("/artifacts/") + 11)] = request.body;
      return ok(Json::object());
    }
    if (has("get-by-name")) {
      return experiment_
                 ? ok({{"experiment", {{"experiment_id", "1"}, {"lifecycle_stage", "active"}}}})
                 : refusal(404, "no such experiment");
    }
    if (has("runs/get")) return ok(run_json(request.url.substr(request.url.find("run_id=") + 7)));
    const Json body = Json::parse(request.body);
    if (has("experiments/create")) {
      experiment_ = true;
      if (is_overtaken) return refusal(400, "Experiment(name=e) already exists");
      return ok({{"experiment_id", "1"}});
    }
    if (has("runs/search")) return search(body);
    if (has("runs/create")) return create(body);
    if (has("runs/update")) return update(body);
    return log_batch(body);
  }
  HttpResponse search(const Json& body) {
    const std::string filter = body.at("filter");
    Json found = Json::array();
    for (const auto& [id, run] : runs) {
      if (filter.find(run.tags.at("accelerate.run_key")) != std::string::npos)
        found.push_back(run_json(id)["run"]);
    }
    return ok({{"runs", found}});
  }
  HttpResponse create(const Json& body) {
    const std::string id = "run" + std::to_string(runs.size());
    for (const auto& tag : body.at("tags")) runs[id].tags[tag.at("key")] = tag.at("value");
    return ok(run_json(id));
  }
  HttpResponse update(const Json& body) {
    runs[body.at("run_id")].status = body.at("status");
    return ok(Json::object());
  }
  HttpResponse log_batch(const Json& body) {
    Run& run = runs[body.at("run_id")];
    for (const auto& metric : body.value("metrics", Json::array())) {
      if (metric.at("key") == "bad") return refusal(400, "bad metric");
    }
    if (body.contains("metrics")) metric_batches.push_back(body["metrics"].size());
    if (body.contains("params")) param_batches.push_back(body["params"].size());
    for (const auto& metric : body.value("metrics", Json::array())) {
      run.metrics.insert(metric.at("key").get<std::string>() + "@" + metric.at("step").dump() +
                         "=" + metric.at("value").dump());
    }
    for (const auto& param : body.value("params", Json::array()))
      run.params[param.at("key")] = param.at("value");
    for (const auto& tag : body.value("tags", Json::array()))
      run.tags[tag.at("key")] = tag.at("value");
    return ok(Json::object());
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Network network_ = Network::up;
  std::set<std::string> lost_;
  bool experiment_ = false;
};

class Wire final : public detail::HttpTransport {
 public:
  explicit Wire(Server& server) : server_(server) {}
  HttpResponse send(const HttpRequest& request) override { return server_.answer(request); }

 private:
  Server& server_;
};

/// Trackers with short pauses that log to that server.
class MlflowFixture : public ::testing::Test {
 protected:
  std::unique_ptr<MlflowTracker> started(
      std::chrono::milliseconds finish_timeout = std::chrono::seconds(60),
      MlflowOptions settings = {.experiment = "e", .tags = {{"who", "me"}}}) {
    settings.server = "http://mlflow";
    settings.flush_interval = std::chrono::milliseconds(1);
    settings.finish_timeout = finish_timeout;
    settings.first_retry = std::chrono::milliseconds(1);
    settings.longest_retry = std::chrono::milliseconds(5);
    auto tracker = std::make_unique<MlflowTracker>(settings, std::make_unique<Wire>(server_));
    tracker->start();
    return tracker;
  }
  [[nodiscard]] bool says(const std::string& part) const {
    return std::ranges::any_of(log_.lines(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }

  Server server_;
  LogCapture log_;
};

}  // namespace accelerate::testing
