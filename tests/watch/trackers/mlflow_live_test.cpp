// Against the server of the mlflow package, on loopback.
#include <ATen/ATen.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "accelerate/base/error.h"
#include "accelerate/base/http/http.h"
#include "accelerate/watch/trackers/mlflow_tracker.h"
#include "tests/support/log_capture.h"
#include "tests/support/ranks.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using testing::TemporaryFolder;

// A process of ours, killed at the end.
class ServerProcess {
 public:
  ServerProcess(int port, const std::filesystem::path& folder) : port_(port), folder_(folder) {
    start();
  }
  ~ServerProcess() { stop(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  void start() {
    const std::string python = testing::reference_python();
    const std::string script = testing::reference_path("mlflow_server.py").string();
    const std::string port = std::to_string(port_);
    pid_ = fork();
    if (pid_ != 0) return;
    const int log = open((folder_ / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(log, 1);
    dup2(log, 2);
    execl(python.c_str(), python.c_str(), script.c_str(), port.c_str(), folder_.c_str(), nullptr);
    _exit(127);
  }
  void stop() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  /// False when it does not come up within a minute.
  [[nodiscard]] bool wait_until_up() const {
    const auto network = detail::make_http_transport({});
    for (int i = 0; i < 300; ++i) {
      try {
        if (network->send({"GET", uri() + "/health", ""}).status == 200) return true;
      } catch (const NetworkError&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
    }
    return false;
  }
  [[nodiscard]] std::string uri() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  int port_;
  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

// With the server killed and started again in the middle: one test, for a server takes seconds.
TEST(MlflowLive, ARunOutlivesItsServerAndIsReadBackByTheOriginalClient) {
  ACCELERATE_NEED_REFERENCE_PYTHON();
  if (!detail::has_http_transport()) GTEST_SKIP() << "built without libcurl";
  const testing::LogCapture log;
  const TemporaryFolder folder;
  ServerProcess server(testing::free_port(), folder.path());
  ASSERT_TRUE(server.wait_until_up());
  MlflowTracker tracker({"fashion mnist",
                         folder.path(),
                         {{"tracking_uri", server.uri()},
                          {"run_name", "first"},
                          {"tags", ConfigMap{{"team", "größe"}}},
                          {"flush_secs", 0.05},
                          {"finish_timeout_secs", 300}}});
  tracker.start();
  tracker.store_init_configuration({{"lr", 0.001}, {"net", ConfigMap{{"layers", 2}}}});
  for (int i = 0; i < 50; ++i) tracker.log({{"train/loss", 1.0 / (i + 1)}}, i);
  for (int i = 0; i < 1000 && tracker.run_id().empty(); ++i) usleep(20'000);
  ASSERT_FALSE(tracker.run_id().empty());
  server.stop();
  for (int i = 50; i < 100; ++i) tracker.log({{"train/loss", 1.0 / (i + 1)}}, i);
  tracker.log({{"odd", std::numeric_limits<double>::quiet_NaN()}}, 5);
  tracker.log_images({{"sample", at::zeros({3, 4, 5})}}, 1);
  server.start();
  ASSERT_TRUE(server.wait_until_up());
  tracker.finish();

  const auto result = testing::run_program(
      {testing::reference_python(), testing::reference_path("mlflow_read.py").string(),
       server.uri(), "fashion mnist"},
      {.env = {}, .timeout = std::chrono::seconds(300), .working_directory = {}});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const Json runs = Json::parse(result.out);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_EQ(runs[0].at("status"), "FINISHED");
  EXPECT_EQ(runs[0].at("name"), "first");
  EXPECT_EQ(runs[0].at("params"), Json::parse(R"({"lr":"0.001","net.layers":"2"})"));
  EXPECT_EQ(runs[0].at("tags").at("team"), "größe");
  EXPECT_EQ(runs[0].at("artifacts"), Json::parse(R"(["images/sample/step_1.png"])"));
  const auto& losses = runs[0].at("metrics").at("train/loss");
  ASSERT_EQ(losses.size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(losses[i][0], i);
    EXPECT_EQ(std::stod(losses[i][1].get<std::string>()), 1.0 / (i + 1));
  }
  EXPECT_EQ(runs[0].at("metrics").at("odd"), Json::parse(R"([[5,"nan"]])"));
}

}  // namespace
}  // namespace accelerate
