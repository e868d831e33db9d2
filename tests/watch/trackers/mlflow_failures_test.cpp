// Servers that are away, slow, strange or full.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "tests/watch/trackers/mlflow_in_memory.h"

namespace accelerate {
namespace {

using testing::HttpResponse;
using testing::Server;

class MlflowFailures : public testing::MlflowFixture {};

// The network takes a request and does not answer: logging goes on all the same.
TEST_F(MlflowFailures, LoggingNeverWaitsForTheNetwork) {
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

TEST_F(MlflowFailures, AServerThatGoesAndComesBackLosesNothingAndIsNamedOnce) {
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
    outages += line.find("connection refused. Training continues") != std::string::npos;
  EXPECT_LE(outages, 1);
}

// Every answer is lost once, so everything is sent twice: there is still one run, and each value
// once.
TEST_F(MlflowFailures, LostAnswersDoubleNothing) {
  server_.set(Server::Network::loses_answers);
  const auto tracker = started();
  for (int i = 0; i < 20; ++i) tracker->log({{"loss", i}}, i);
  tracker->finish();
  ASSERT_EQ(server_.runs.size(), 1u);
  EXPECT_EQ(server_.runs.at("run0").metrics.size(), 20u);
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
}

TEST_F(MlflowFailures, APartThatTheServerRefusesDoesNotHoldUpTheRest) {
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

TEST_F(MlflowFailures, WhatTheServerSaysWhenItFailsIsSaidWithTheCure) {
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
TEST_F(MlflowFailures, WhatNoMlflowServerSaysIsNoAnswer) {
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

TEST_F(MlflowFailures, APartThatIsTooLargeForAProxyIsLeftOut) {
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

TEST_F(MlflowFailures, MetricsDoNotWaitForFilesThatTheServerCannotStore) {
  server_.takes_artifacts = false;
  const auto tracker = started(std::chrono::seconds(2));
  tracker->log_images({{"a", at::zeros({2, 2})}}, 1);
  tracker->log({{"loss", 0.5}}, 1);
  tracker->log_images({{"b", at::zeros({2, 2})}}, 2);
  tracker->finish();
  EXPECT_EQ(server_.runs.at("run0").metrics.size(), 1u);
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
  EXPECT_NE(log_.lines().back().find("http://mlflow: 2 files are lost"), std::string::npos);
}

TEST_F(MlflowFailures, AFileThatTheServerCannotStoreIsSentWhenItCan) {
  server_.takes_artifacts = false;
  const auto tracker = started();
  tracker->log_images({{"a", at::zeros({2, 2})}}, 1);
  while (!says("HTTP status 500")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server_.takes_artifacts = true;
  tracker->finish();
  EXPECT_EQ(server_.artifacts.size(), 1u);
  EXPECT_TRUE(log_.lines().back().ends_with("answers again")) << log_.lines().back();
}

TEST_F(MlflowFailures, AnEndWithoutEndTrainingSendsWhatWaitsAndIsSaid) {
  {
    const auto tracker = started();
    tracker->log({{"loss", 0.5}}, 1);
  }
  EXPECT_EQ(server_.runs.at("run0").metrics, std::set<std::string>{"loss@1=0.5"});
  EXPECT_EQ(server_.runs.at("run0").status, "RUNNING");
  ASSERT_FALSE(log_.lines().empty());
  EXPECT_NE(log_.lines().back().find("ended without end_training()"), std::string::npos);
}

// Else a program that fails would wait for a server that is away.
TEST_F(MlflowFailures, AnEndWithoutEndTrainingTriesADeadServerOnce) {
  server_.set(Server::Network::down);
  started()->log({{"loss", 0.5}}, 1);
  EXPECT_TRUE(says("; 1 value is lost"));
}

TEST_F(MlflowFailures, TwoRunsThatMakeOneExperimentAreNoTrouble) {
  server_.is_overtaken = true;
  started()->finish();
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
  EXPECT_TRUE(log_.lines().empty());
}

// A server that asks for ten minutes has come back meanwhile: the end tries once more.
TEST_F(MlflowFailures, TheEndDoesNotWaitOutALongPause) {
  server_.force({{429, "{}", std::chrono::seconds(600)}});
  const auto tracker = started();
  server_.wait_for_request();
  tracker->finish();
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
}

TEST_F(MlflowFailures, WhatADeadServerMissesIsCountedAtTheEnd) {
  server_.set(Server::Network::down);
  const auto tracker = started(std::chrono::milliseconds(20));
  tracker->store_init_configuration({{"lr", 0.1}});
  tracker->log({{"loss", 0.5}, {"epoch", 1}}, 1);
  tracker->log_images({{"a", at::zeros({2, 2})}}, 1);
  tracker->finish();
  EXPECT_TRUE(says("3 values are lost, 1 file is lost, the run was not made"));
}

// Both queues: values and files.
TEST_F(MlflowFailures, WhatFindsNoRoomInMemoryIsDroppedAndCounted) {
  server_.set(Server::Network::stuck);
  const auto tracker =
      started(std::chrono::seconds(60), {.experiment = "e", .most_waiting_bytes = 10'000});
  server_.wait_for_request();
  for (int i = 0; i < 1000; ++i) tracker->log({{"loss", i}}, i);
  for (int i = 0; i < 3; ++i) tracker->log_table("t", {{"a"}, {{std::string(6000, 'x')}}}, i);
  server_.set(Server::Network::up);
  tracker->finish();
  const auto& metrics = server_.runs.at("run0").metrics;
  EXPECT_TRUE(metrics.contains("loss@0=0.0"));
  EXPECT_LE(metrics.size() * 100, 10'000u);
  EXPECT_EQ(server_.artifacts.size(), 1u);
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
  EXPECT_EQ(log_.lines().size(), 3u) << "one a queue, and one at the end";
  EXPECT_TRUE(says("has 10000 bytes waiting for the server, which is all that it keeps"));
  EXPECT_TRUE(says(std::to_string(1000 - metrics.size()) + " values are lost, 2 files are lost"));
}

TEST_F(MlflowFailures, AFileLargerThanTheMemoryIsSentWhenNoOtherWaits) {
  const auto tracker =
      started(std::chrono::seconds(60), {.experiment = "e", .most_waiting_bytes = 10});
  tracker->log_table("t", {{"a"}, {{std::string(100, 'x')}}}, 1);
  tracker->finish();
  EXPECT_EQ(server_.artifacts.size(), 1u);
  EXPECT_TRUE(log_.lines().empty());
}

}  // namespace
}  // namespace accelerate
