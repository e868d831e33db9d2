#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/tracking/mlflow_client.h"
#include "accelerate/tracking/mlflow_tracker.h"
#include "tests/support/log_capture.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using detail::HttpRequest;
using detail::HttpResponse;
using detail::MlflowSettings;
using testing::LogCapture;
using testing::TemporaryFolder;
using Json = nlohmann::json;

// A server in memory, and the network to it. What it keeps, it keeps as the real one does: the same
// metric, time and step twice is one.
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
      if (filter.find(run.tags.at("accelerate.spool_id")) != std::string::npos)
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

class Mlflow : public ::testing::Test {
 protected:
  std::unique_ptr<MlflowTracker> started(
      std::chrono::milliseconds finish_timeout = std::chrono::seconds(60)) {
    MlflowSettings settings;
    settings.server = "http://mlflow";
    settings.run = {
        .spool_id = "spool" + std::to_string(count_++), .experiment = "e", .tags = {{"who", "me"}}};
    settings.spool_folder = folder_.path();
    settings.flush_interval = std::chrono::milliseconds(1);
    settings.finish_timeout = finish_timeout;
    settings.first_retry = std::chrono::milliseconds(1);
    settings.longest_retry = std::chrono::milliseconds(5);
    auto tracker = std::make_unique<MlflowTracker>(settings, std::make_unique<Wire>(server_));
    tracker->start();
    return tracker;
  }
  [[nodiscard]] std::vector<std::string> left() const {
    return real_file_system().list(folder_.path());
  }

  TemporaryFolder folder_;
  Server server_;
  LogCapture log_;
  int count_ = 0;
};

TEST_F(Mlflow, TellsTheServerARunItsParametersAndItsMetrics) {
  const auto tracker = started();
  tracker->store_init_configuration(
      {{"lr", 0.1}, {"net", ConfigMap{{"layers", 2}}}, {"amp", true}});
  tracker->log({{"loss", 0.5}, {"epoch", 1}, {"acc", Scalars{{"test", 0.25}}}}, 3);
  tracker->log({{"loss", std::numeric_limits<double>::quiet_NaN()},
                {"inf", -std::numeric_limits<double>::infinity()}},
               4);
  tracker->finish();
  ASSERT_EQ(server_.runs.size(), 1u);
  const auto& run = server_.runs.at("run0");
  EXPECT_EQ(run.status, "FINISHED");
  EXPECT_EQ(run.metrics, (std::set<std::string>{"loss@3=0.5", "epoch@3=1.0", "acc/test@3=0.25",
                                                "loss@4=\"NaN\"", "inf@4=\"-Infinity\""}));
  EXPECT_EQ(run.params, (std::map<std::string, std::string>{
                            {"lr", "0.1"}, {"net.layers", "2"}, {"amp", "True"}}));
  EXPECT_EQ(run.tags.at("who"), "me");
  EXPECT_EQ(tracker->run_id(), "run0");
  EXPECT_TRUE(left().empty()) << "the spool stays";
  EXPECT_TRUE(log_.lines().empty());
}

std::string numbered(char letter, int number) {
  std::string name(1, letter);
  return name += std::to_string(number);
}

TEST_F(Mlflow, KeepsToTheLimitsOfARequest) {
  const auto tracker = started();
  TrackerValues values;
  for (int i = 0; i < 2500; ++i) values.emplace_back(numbered('m', i), i);
  TrackerConfig config;
  for (int i = 0; i < 250; ++i) config.emplace_back(numbered('p', i), std::string(7000, 'x'));
  tracker->store_init_configuration(config);
  tracker->log(values, 1);
  tracker->finish();
  const auto& run = server_.runs.at("run0");
  EXPECT_EQ(run.metrics.size(), 2500u);
  EXPECT_EQ(run.params.size(), 250u);
  EXPECT_EQ(run.params.at("p0").size(), 6000u);
  EXPECT_EQ(server_.metric_batches, (std::vector<std::size_t>{1000, 1000, 500}));
  EXPECT_EQ(server_.param_batches, (std::vector<std::size_t>{100, 100, 50}));
}

TEST_F(Mlflow, SendsImagesAndTablesAsArtifacts) {
  const auto tracker = started();
  tracker->log_images({{"in/put", at::zeros({2, 2})}}, 7);
  tracker->log_table("t", {{"a", "b"}, {{1, "x"}}}, 8);
  tracker->finish();
  EXPECT_TRUE(
      server_.artifacts.at("1/run0/artifacts/images/in_put/step_7.png").starts_with("\x89PNG"));
  EXPECT_EQ(server_.artifacts.at("1/run0/artifacts/tables/t/step_8.json"),
            R"({"columns":["a","b"],"data":[[1,"x"]]})");
}

// The network takes a request and does not answer: logging goes on all the same.
TEST_F(Mlflow, LoggingNeverWaitsForTheNetwork) {
  server_.set(Server::Network::stuck);
  const auto tracker = started();
  server_.wait_for_request();
  for (int i = 0; i < 10'000; ++i) tracker->log({{"loss", i}}, i);
  EXPECT_TRUE(server_.runs.empty());
  server_.set(Server::Network::up);
  tracker->finish();
  EXPECT_EQ(server_.runs.at("run0").metrics.size(), 10'000u);
  EXPECT_LE(server_.metric_batches.size(), 20u) << "rows that wait together are sent together";
}

TEST_F(Mlflow, AServerThatGoesAndComesBackLosesNothingAndIsNamedOnce) {
  const auto tracker = started();
  for (int i = 0; i < 300; ++i) {
    if (i == 100) server_.set(Server::Network::down);
    if (i == 200) server_.set(Server::Network::up);
    tracker->log({{"loss", i}}, i);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  tracker->finish();
  EXPECT_EQ(server_.runs.at("run0").metrics.size(), 300u);
  int outages = 0;
  for (const auto& line : log_.lines())
    outages += line.find("connection refused. Training goes on") != std::string::npos;
  EXPECT_LE(outages, 1);
}

TEST_F(Mlflow, WhatADeadServerMissedIsSentByTheNextRun) {
  server_.set(Server::Network::down);
  {
    const auto tracker = started(std::chrono::milliseconds(20));
    tracker->store_init_configuration({{"lr", 0.1}});
    tracker->log({{"loss", 0.5}}, 1);
    tracker->finish();
    EXPECT_NE(log_.lines().back().find(tracker->spool().string()), std::string::npos)
        << "names the spool";
  }
  EXPECT_TRUE(server_.runs.empty());
  EXPECT_FALSE(left().empty());
  server_.set(Server::Network::up);
  const auto next = started();
  next->finish();
  ASSERT_EQ(server_.runs.size(), 2u);
  const auto& old = server_.runs.at("run1");
  EXPECT_EQ(old.metrics, std::set<std::string>{"loss@1=0.5"});
  EXPECT_EQ(old.params.at("lr"), "0.1");
  EXPECT_EQ(old.status, "FINISHED");
  EXPECT_TRUE(left().empty());
}

TEST_F(Mlflow, ARunThatEndedWithoutAWordIsMarkedByTheNextOne) {
  {
    const auto tracker = started();
    tracker->log({{"loss", 0.5}}, 1);
    while (tracker->run_id().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto next = started();
  next->finish();
  EXPECT_EQ(server_.runs.at("run0").status, "KILLED");
  EXPECT_EQ(server_.runs.at("run0").metrics, std::set<std::string>{"loss@1=0.5"});
}

TEST_F(Mlflow, ASpoolThatAnotherProcessWorksOnIsLeftAlone) {
  server_.set(Server::Network::down);
  const auto first = started(std::chrono::milliseconds(1));
  server_.wait_for_request();
  first->log({{"loss", 0.5}}, 1);
  const auto second = started(std::chrono::milliseconds(1));
  server_.set(Server::Network::up);
  while (second->run_id().empty() || first->run_id().empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(server_.runs.size(), 2u);
}

// Every answer is lost once, so everything is sent twice: there is still one run, and each value
// once.
TEST_F(Mlflow, LostAnswersDoubleNothing) {
  server_.set(Server::Network::loses_answers);
  const auto tracker = started();
  for (int i = 0; i < 20; ++i) tracker->log({{"loss", i}}, i);
  tracker->finish();
  ASSERT_EQ(server_.runs.size(), 1u);
  EXPECT_EQ(server_.runs.at("run0").metrics.size(), 20u);
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
}

TEST_F(Mlflow, APartThatTheServerRefusesDoesNotHoldUpTheRest) {
  server_.set(Server::Network::stuck);
  const auto tracker = started();
  for (int i = 0; i < 5; ++i) tracker->log({{i == 2 ? "bad" : "good", i}}, i);
  server_.set(Server::Network::up);
  tracker->finish();
  EXPECT_EQ(server_.runs.at("run0").metrics.size(), 4u);
  ASSERT_EQ(log_.lines().size(), 1u);
  EXPECT_NE(
      log_.lines()[0].find(
          "refused a part of what was logged, which is left out: HTTP status 400, bad metric"),
      std::string::npos);
}

TEST_F(Mlflow, WhatTheServerSaysWhenItFailsIsSaidWithTheCure) {
  for (const auto& [status, cure] :
       std::map<int, std::string>{{401, "MLFLOW_TRACKING_TOKEN"},
                                  {302, "redirects are not followed"},
                                  {503, "HTTP status 503"},
                                  {429, "HTTP status 429"},
                                  {418, "MLFLOW_TRACKING_URI right"}}) {
    server_.force({{status, R"({"message":"no\nway"})", {}}});
    const auto tracker = started();
    tracker->finish();
    bool said = false;
    for (const auto& line : log_.lines())
      said = said ||
             (line.find(cure) != std::string::npos && line.find("no way") != std::string::npos);
    EXPECT_TRUE(said) << status;
  }
}

// A proxy whose server is away, or a portal that wants a password first, answers what it likes:
// that is no answer of the server, and nothing that was sent to it has arrived.
TEST_F(Mlflow, WhatNoMlflowServerSaysIsNoAnswer) {
  for (const HttpResponse& page : std::vector<HttpResponse>{{200, "<html>log in</html>", {}},
                                                            {400, "<html>bad request</html>", {}},
                                                            {404, "default backend - 404", {}},
                                                            {418, "{}", {}}}) {
    const auto tracker = started();
    tracker->log({{"first", 1}}, 1);
    while (tracker->run_id().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    server_.set(Server::Network::stuck);
    tracker->log({{"second", 2}}, 2);
    server_.force({page, page, page});
    server_.set(Server::Network::up);
    tracker->finish();
    EXPECT_EQ(server_.runs.at(tracker->run_id()).metrics.size(), 2u) << page.status;
    EXPECT_EQ(server_.runs.at(tracker->run_id()).status, "FINISHED") << page.status;
  }
}

TEST_F(Mlflow, APartThatIsTooLargeForAProxyIsLeftOut) {
  const auto tracker = started();
  tracker->log({{"first", 1}}, 1);
  while (tracker->run_id().empty()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_.force({{413, "<html>too large</html>", {}}});
  tracker->log_images({{"big", at::zeros({2, 2})}}, 1);
  tracker->log({{"second", 2}}, 2);
  tracker->finish();
  EXPECT_GE(server_.runs.at("run0").metrics.size(), 1u);
  ASSERT_EQ(log_.lines().size(), 1u);
  EXPECT_NE(log_.lines()[0].find("refused a part"), std::string::npos) << log_.lines()[0];
}

TEST_F(Mlflow, MetricsDoNotWaitForFilesThatTheServerCannotStore) {
  server_.takes_artifacts = false;
  {
    const auto tracker = started(std::chrono::milliseconds(50));
    tracker->log_images({{"a", at::zeros({2, 2})}}, 1);
    tracker->log({{"loss", 0.5}}, 1);
    tracker->log_images({{"b", at::zeros({2, 2})}}, 2);
    tracker->finish();
    EXPECT_EQ(server_.runs.at("run0").metrics.size(), 1u);
    EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
    EXPECT_NE(log_.lines().back().find(tracker->spool().string()), std::string::npos);
  }
  server_.takes_artifacts = true;
  started()->finish();
  EXPECT_EQ(server_.artifacts.size(), 2u) << "sent by the next run";
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
  EXPECT_TRUE(left().empty());
}

// Else every run would end with the pause, and the warning, of the one that cannot be sent.
TEST_F(Mlflow, WhatAnEarlierRunCannotSendDoesNotDelayTheEnd) {
  server_.takes_artifacts = false;
  {
    const auto tracker = started(std::chrono::milliseconds(50));
    tracker->log_images({{"a", at::zeros({2, 2})}}, 1);
    tracker->finish();
  }
  const auto before = log_.lines().size();
  for (int i = 0; i < 2; ++i) {
    const auto tracker = started();
    tracker->log({{"loss", 0.5}}, 1);
    tracker->finish();
    EXPECT_FALSE(std::filesystem::exists(tracker->spool()));
  }
  for (std::size_t i = before; i < log_.lines().size(); ++i) {
    EXPECT_EQ(log_.lines()[i].find("not all that was logged"), std::string::npos);
    EXPECT_EQ(log_.lines()[i].find("cannot be used"), std::string::npos);
  }
  EXPECT_EQ(left().size(), 2u) << "the first one's spool and how much of it was sent";
}

TEST_F(Mlflow, AStrangeSpoolKeepsNoOtherFromBeingSent) {
  server_.set(Server::Network::down);
  {
    const auto tracker = started(std::chrono::milliseconds(1));
    tracker->log({{"loss", 0.5}}, 1);
    tracker->finish();
  }
  server_.set(Server::Network::up);
  std::filesystem::create_directory(folder_.path() / "a folder.jsonl");
  folder_.write("empty.jsonl", "");
  folder_.write("strange.jsonl", "no JSON\n");
  folder_.write("of another server.jsonl", "{\"kind\":\"run\",\"server\":\"http://x\"}\n");
  started()->finish();
  EXPECT_EQ(server_.runs.size(), 2u);
  EXPECT_EQ(left(), (std::vector<std::string>{"a folder.jsonl", "of another server.jsonl",
                                              "strange.jsonl"}));
}

TEST_F(Mlflow, AnEndWithoutEndTrainingIsSaid) {
  started().reset();
  ASSERT_FALSE(log_.lines().empty());
  EXPECT_NE(log_.lines().back().find("ended without end_training()"), std::string::npos);
}

TEST_F(Mlflow, ASpoolThatSomeoneRemovesBeginsAnewWithTheSameRun) {
  const auto tracker = started();
  tracker->log({{"before", 1}}, 1);
  while (tracker->run_id().empty() || !std::filesystem::exists(tracker->spool()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::filesystem::remove_all(folder_.path());
  for (int i = 0; i < 20; ++i) {
    tracker->log({{"after", i}}, i);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  tracker->finish();
  ASSERT_EQ(server_.runs.size(), 1u);
  EXPECT_TRUE(server_.runs.at("run0").metrics.contains("after@19=19.0"));
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
}

TEST_F(Mlflow, TwoRunsThatMakeOneExperimentAreNoTrouble) {
  server_.is_overtaken = true;
  started()->finish();
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
  EXPECT_TRUE(log_.lines().empty());
}

// A server that asks for ten minutes has come back meanwhile: the end tries once more.
TEST_F(Mlflow, TheEndDoesNotWaitOutALongPause) {
  server_.force({{429, "{}", std::chrono::seconds(600)}});
  const auto tracker = started();
  server_.wait_for_request();
  tracker->finish();
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
}

// A dead server and a full disk: the process may write no byte to any file.
TEST_F(Mlflow, DoesNotSayThatASpoolHoldsWhatFoundNoRoomInIt) {
  server_.set(Server::Network::down);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    signal(SIGXFSZ, SIG_IGN);
    const rlimit none{0, 0};
    setrlimit(RLIMIT_FSIZE, &none);
    const auto tracker = started(std::chrono::milliseconds(1));
    tracker->log({{"loss", 0.5}}, 1);
    tracker->finish();
    const auto lines = log_.lines();
    const auto says = [&lines](const char* part) {
      return std::ranges::any_of(
          lines, [part](const std::string& line) { return line.find(part) != std::string::npos; });
    };
    _exit(says("could not write its last") && says("what found room in") && !says("holds it") ? 0
                                                                                              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST_F(Mlflow, RefusesValuesAfterTheEnd) {
  const auto tracker = started();
  tracker->finish();
  EXPECT_THROW(tracker->log({{"a", 1}}, 1), UsageError);
}

TEST_F(Mlflow, AForkLeavesTheRunToItsProcess) {
  auto tracker = started();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    tracker.reset();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status));
  tracker->log({{"loss", 0.5}}, 1);
  tracker->finish();
  EXPECT_EQ(server_.runs.at("run0").metrics.size(), 1u);
}

TEST_F(Mlflow, GoesOnWithARunThatIsThere) {
  MlflowSettings settings;
  settings.server = "http://mlflow";
  settings.run = {
      .spool_id = "s", .experiment = "e", .run_id = "given", .tags = {{"resumed", "yes"}}};
  settings.spool_folder = folder_.path();
  settings.flush_interval = std::chrono::milliseconds(1);
  MlflowTracker tracker(settings, std::make_unique<Wire>(server_));
  tracker.start();
  tracker.log({{"loss", 1}}, 1);
  tracker.finish();
  ASSERT_EQ(server_.runs.size(), 1u);
  EXPECT_EQ(server_.runs.at("given").metrics.size(), 1u);
  EXPECT_EQ(server_.runs.at("given").tags.at("resumed"), "yes");
}

TEST_F(Mlflow, SaysOnceThatItKeepsNumbersOnly) {
  const auto tracker = started();
  for (int i = 0; i < 3; ++i) tracker->log({{"only this text", "x"}}, i);
  tracker->finish();
  ASSERT_EQ(log_.lines().size(), 1u);
  EXPECT_NE(log_.lines()[0].find("'only this text' is left out"), std::string::npos);
}

TEST(MlflowKey, IsWhatTheServerTakes) {
  const std::map<std::string, std::string> keys = {
      {"loss", "loss"}, {"train/loss", "train/loss"}, {"a[0]%", "a_0__"}, {"/a//b/", "a/b"},
      {"../x", "_/x"},  {"größe", "gr____e"},         {"%", "_"},         {"/", "_"}};
  for (const auto& [name, key] : keys) EXPECT_EQ(detail::mlflow_key(name), key);
  EXPECT_EQ(detail::mlflow_key(std::string(400, 'k')).size(), 250u);
}

TEST(MlflowSpoolText, Base64GoesThereAndBack) {
  EXPECT_EQ(detail::base64(""), "");
  EXPECT_EQ(detail::base64("f"), "Zg==");
  EXPECT_EQ(detail::base64("fo"), "Zm8=");
  EXPECT_EQ(detail::base64("foobar"), "Zm9vYmFy");
  std::string all;
  for (int i = 0; i < 257; ++i) all += static_cast<char>(i * 7);
  EXPECT_EQ(detail::from_base64(detail::base64(all)), all);
  EXPECT_THROW((void)detail::from_base64("a*"), ConfigError);
}

TEST(MlflowSettings, TakeTheEnvironmentOverTheOptions) {
  const testing::ScopedEnv uri("MLFLOW_TRACKING_URI", "https://host:5000/base/");
  const testing::ScopedEnv experiment("MLFLOW_EXPERIMENT_NAME", "from_env");
  const testing::ScopedEnv run("MLFLOW_RUN_ID", "abc");
  const testing::ScopedEnv tags("MLFLOW_TAGS", R"({"team": "x"})");
  const testing::ScopedEnv token("MLFLOW_TRACKING_TOKEN", "secret");
  const auto settings = detail::mlflow_settings(
      {"project",
       "logs",
       {{"tracking_uri", "http://other"}, {"run_id", "def"}, {"finish_timeout_secs", 0.5}}});
  EXPECT_EQ(settings.server, "https://host:5000/base");
  EXPECT_EQ(settings.run.experiment, "from_env");
  EXPECT_EQ(settings.run.run_id, "abc");
  EXPECT_EQ(settings.run.tags.at(0).first, "team");
  EXPECT_EQ(settings.http.bearer_token, "secret");
  EXPECT_EQ(settings.spool_folder, "logs/mlflow_spool");
  EXPECT_EQ(settings.finish_timeout, std::chrono::milliseconds(500));
}

struct BadSetting {
  const char* variable;
  const char* value;
  const char* message;
};

TEST(MlflowSettings, RefuseWhatIsWrongWithASentence) {
  const testing::ScopedEnv none("MLFLOW_TRACKING_URI", nullptr);
  for (const auto& bad :
       std::vector<BadSetting>{{"UNRELATED", "x", "needs a server: set MLFLOW_TRACKING_URI"},
                               {"MLFLOW_TRACKING_URI", "file:///tmp/mlruns",
                                "'file:///tmp/mlruns'; allowed is an http.*mlflow server"},
                               {"MLFLOW_TRACKING_URI", "http://", "allowed is an http"},
                               {"MLFLOW_TRACKING_URI", "http://a b", "allowed is an http"},
                               {"MLFLOW_TRACKING_URI", "http://user:pass@host",
                                "a name or password in it.*MLFLOW_TRACKING_USERNAME"}}) {
    const testing::ScopedEnv env(bad.variable, bad.value);
    try {
      (void)detail::mlflow_settings({"p", "", {}});
      ADD_FAILURE() << "accepted " << bad.value;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(bad.message))) << error.what();
      EXPECT_EQ(std::string(error.what()).find("pass@"), std::string::npos);
    }
  }
}

TEST(MlflowSettings, RefuseOtherVariablesThatDoNotParse) {
  const testing::ScopedEnv uri("MLFLOW_TRACKING_URI", "http://host");
  for (const auto& bad : std::vector<BadSetting>{
           {"MLFLOW_TAGS", "[1]", "MLFLOW_TAGS is a list"},
           {"MLFLOW_TAGS", "{\"a\": []}", "'a' is a list"},
           {"MLFLOW_TAGS", "{", "MLFLOW_TAGS"},
           {"MLFLOW_RUN_ID", "../x", "run id '../x'"},
           {"MLFLOW_TRACKING_TOKEN", "a\r\nX: y", "MLFLOW_TRACKING_TOKEN has a control"},
           {"MLFLOW_TRACKING_INSECURE_TLS", "perhaps", "MLFLOW_TRACKING_INSECURE_TLS"}}) {
    const testing::ScopedEnv env(bad.variable, bad.value);
    try {
      (void)detail::mlflow_settings({"p", "", {}});
      ADD_FAILURE() << "accepted " << bad.value;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(bad.message))) << error.what();
    }
  }
}

}  // namespace
}  // namespace accelerate
