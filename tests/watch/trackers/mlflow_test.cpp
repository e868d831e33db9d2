#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <map>
#include <regex>
#include <set>

#include "tests/watch/trackers/mlflow_in_memory.h"

namespace accelerate {
namespace {

class Mlflow : public testing::MlflowFixture {};

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
  EXPECT_TRUE(log_.lines().empty());
}

std::string numbered(char letter, int number) {
  std::string name(1, letter);
  return name += std::to_string(number);
}

TEST_F(Mlflow, KeepsToTheLimitsOfARequest) {
  server_.set(testing::Server::Network::stuck);  // Until all waits.
  const auto tracker = started();
  TrackerValues values;
  for (int i = 0; i < 2500; ++i) values.emplace_back(numbered('m', i), i);
  ConfigMap config;
  for (int i = 0; i < 250; ++i) config.emplace_back(numbered('p', i), std::string(7000, 'x'));
  tracker->store_init_configuration(config);
  tracker->log(values, 1);
  server_.set(testing::Server::Network::up);
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
  const auto tracker =
      started(std::chrono::seconds(60),
              {.experiment = "e", .run_id = "given", .tags = {{"resumed", "yes"}}});
  tracker->log({{"loss", 1}}, 1);
  tracker->finish();
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

TEST(MlflowOptions, TakeTheEnvironmentOverTheOptions) {
  const testing::ScopedEnv uri("MLFLOW_TRACKING_URI", "https://host:5000/base/");
  const testing::ScopedEnv experiment("MLFLOW_EXPERIMENT_NAME", "from_env");
  const testing::ScopedEnv run("MLFLOW_RUN_ID", "abc");
  const testing::ScopedEnv tags("MLFLOW_TAGS", R"({"team": "x"})");
  const testing::ScopedEnv token("MLFLOW_TRACKING_TOKEN", "secret");
  const testing::LogCapture log;
  const auto settings = detail::mlflow_options({"project",
                                                "logs",
                                                {{"tracking_uri", "http://other"},
                                                 {"experiment_name", "from_env"},
                                                 {"run_id", "def"},
                                                 {"finish_timeout_secs", 0.5}}});
  ASSERT_EQ(log.lines().size(), 2U) << "of what differs";
  EXPECT_NE(log.lines()[0].find(
                "MLFLOW_TRACKING_URI is set and counts in place of the option tracking_uri"),
            std::string::npos);
  EXPECT_NE(log.lines()[1].find("MLFLOW_RUN_ID is set"), std::string::npos);
  EXPECT_EQ(settings.server, "https://host:5000/base");
  EXPECT_EQ(settings.experiment, "from_env");
  EXPECT_EQ(settings.run_id, "abc");
  EXPECT_EQ(settings.tags.at(0).first, "team");
  EXPECT_EQ(settings.http.bearer_token, "secret");
  EXPECT_EQ(settings.finish_timeout, std::chrono::milliseconds(500));
}

struct BadSetting {
  const char* variable;
  const char* value;
  const char* message;
};

TEST(MlflowOptions, RefuseWhatIsWrongWithASentence) {
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
      (void)detail::mlflow_options({"p", "", {}});
      ADD_FAILURE() << "accepted " << bad.value;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(bad.message))) << error.what();
      EXPECT_EQ(std::string(error.what()).find("pass@"), std::string::npos);
    }
  }
}

TEST(MlflowOptions, RefuseOtherVariablesThatDoNotParse) {
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
      (void)detail::mlflow_options({"p", "", {}});
      ADD_FAILURE() << "accepted " << bad.value;
    } catch (const ConfigError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(bad.message))) << error.what();
    }
  }
}

}  // namespace
}  // namespace accelerate
