// Servers that are away, slow, strange or full, and runs that ended before theirs answered.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

#include "tests/tracking/mlflow_in_memory.h"

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
    outages += line.find("connection refused. Training goes on") != std::string::npos;
  EXPECT_LE(outages, 1);
}

TEST_F(MlflowFailures, WhatADeadServerMissedIsSentByTheNextRun) {
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

TEST_F(MlflowFailures, ARunThatEndedWithoutAWordIsMarkedByTheNextOne) {
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

TEST_F(MlflowFailures, ASpoolThatAnotherProcessWorksOnIsLeftAlone) {
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
  {
    const auto tracker = started(std::chrono::seconds(2));
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
TEST_F(MlflowFailures, WhatAnEarlierRunCannotSendDoesNotDelayTheEnd) {
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

TEST_F(MlflowFailures, AStrangeSpoolKeepsNoOtherFromBeingSent) {
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

TEST_F(MlflowFailures, AnEndWithoutEndTrainingIsSaid) {
  started().reset();
  ASSERT_FALSE(log_.lines().empty());
  EXPECT_NE(log_.lines().back().find("ended without end_training()"), std::string::npos);
}

TEST_F(MlflowFailures, ASpoolThatSomeoneRemovesBeginsAnewWithTheSameRun) {
  const auto tracker = started();
  tracker->log({{"before", 1}}, 1);
  while (tracker->run_id().empty() || !std::filesystem::exists(tracker->spool()))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  // Again when the tracker has made a file there meanwhile.
  for (std::error_code busy(1, std::generic_category()); busy;)
    std::filesystem::remove_all(folder_.path(), busy);
  for (int i = 0; i < 20; ++i) {
    tracker->log({{"after", i}}, i);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  tracker->finish();
  ASSERT_EQ(server_.runs.size(), 1u);
  EXPECT_TRUE(server_.runs.at("run0").metrics.contains("after@19=19.0"));
  EXPECT_EQ(server_.runs.at("run0").status, "FINISHED");
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

// A dead server and a full disk: the process may write no byte to any file.
TEST_F(MlflowFailures, DoesNotSayThatASpoolHoldsWhatFoundNoRoomInIt) {
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
    _exit(says("could not write its last") && says("holds a part of it") && !says("holds it") ? 0
                                                                                              : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace accelerate
