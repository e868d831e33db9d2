// The client over a network that is a list of answers.
#include "accelerate/transformers/hub/transfer/hub_client.h"

#include <gtest/gtest.h>

#include <deque>

#include "accelerate/base/error.h"
#include "accelerate/transformers/hub/transfer/commit_files.h"
#include "tests/support/errors.h"
#include "tests/transformers/hub/hub_support.h"

namespace accelerate::detail {
namespace {

using testing::message_of;

using Asked = std::vector<HttpRequest>;

class ScriptedTransport final : public HttpTransport {
 public:
  ScriptedTransport(std::deque<HttpResponse> answers, Asked& asked)
      : answers_(std::move(answers)), asked_(asked) {}
  HttpResponse send(const HttpRequest& request) override {
    asked_.push_back(request);
    if (answers_.empty()) throw NetworkError("no more answers");
    HttpResponse answer = std::move(answers_.front());
    answers_.pop_front();
    return answer;
  }

 private:
  std::deque<HttpResponse> answers_;
  Asked& asked_;
};

HttpResponse redirect(const std::string& target, int status = 302) {
  return {.status = status, .body = "", .retry_after = {}, .headers = {{"location", target}}};
}

HttpResponse answer(int status, std::vector<std::pair<std::string, std::string>> headers = {},
                    const std::string& body = "") {
  return {.status = status, .body = body, .retry_after = {}, .headers = std::move(headers)};
}

class HubClientTest : public testing::HubEnvironment {
 protected:
  HubClient client(std::deque<HttpResponse> answers, int max_retries = 0) {
    HubOptions options;
    options.endpoint = "https://hub.test/";
    options.token = "hf_secret";
    options.max_retries = max_retries;
    options.retry_wait = std::chrono::milliseconds(1);
    return {options, std::make_unique<ScriptedTransport>(std::move(answers), asked_)};
  }
  [[nodiscard]] bool sent_token(std::size_t request) const {
    for (const auto& line : asked_.at(request).headers) {
      if (line == "Authorization: Bearer hf_secret") return true;
    }
    return false;
  }

  Asked asked_;
  HubSubject model_{.id = "org/name", .revision = "main"};
};

TEST_F(HubClientTest, SendsTheTokenToTheEndpoint) {
  client({answer(200)}).send({.url = "https://hub.test/api"});
  EXPECT_TRUE(sent_token(0));
}

TEST_F(HubClientTest, SendsTheTokenNowhereElse) {
  for (const char* target : {"https://cdn.test/x", "https://hub.test.evil.com/",
                             "https://hub.test:8443/", "https://evil.com/?https://hub.test"}) {
    asked_.clear();
    client({redirect(target), answer(200)}).send({.url = "https://hub.test/a"});
    ASSERT_EQ(asked_.size(), 2U);
    EXPECT_TRUE(sent_token(0));
    EXPECT_FALSE(sent_token(1)) << target;
  }
}

TEST_F(HubClientTest, KeepsTheTokenWhereARedirectStays) {
  client({redirect("/b"), answer(200)}).send({.url = "https://hub.test/a"});
  EXPECT_EQ(asked_.at(1).url, "https://hub.test/b");
  EXPECT_TRUE(sent_token(1));
}

TEST_F(HubClientTest, SendsTheTokenAgainWhenTheWayLeadsBack) {
  client({redirect("https://cdn.test/"), redirect("https://hub.test/b"), answer(200)})
      .send({.url = "https://hub.test/a"});
  EXPECT_FALSE(sent_token(1));
  EXPECT_TRUE(sent_token(2));
}

TEST_F(HubClientTest, RefusesToLeaveEncryption) {
  auto hub = client({redirect("http://hub.test/")});
  const auto message = message_of<NetworkError>([&] { hub.send({.url = "https://hub.test/a"}); });
  EXPECT_TRUE(contains(message, "from https to http")) << message;
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(HubClientTest, RefusesALocationThatIsNoUrl) {
  for (const char* target : {"file:///etc/passwd", "https://user:pass@hub.test/", ""}) {
    auto hub = client({redirect(target)});
    const auto message = message_of<NetworkError>([&] { hub.send({.url = "https://hub.test/a"}); });
    EXPECT_TRUE(contains(message, "not http or https")) << message;
  }
}

TEST_F(HubClientTest, EndsALoopOfRedirects) {
  auto hub = client(std::deque<HttpResponse>(50, redirect("/a")));
  EXPECT_THROW(hub.send({.url = "https://hub.test/a"}), NetworkError);
  EXPECT_EQ(asked_.size(), 20U);
}

TEST_F(HubClientTest, SendsABodyToNobodyElse) {
  auto hub = client({redirect("https://cdn.test/", 307)});
  EXPECT_THROW(hub.post("https://hub.test/a", "{}", {}), NetworkError);
  EXPECT_EQ(asked_.size(), 1U);
}

TEST_F(HubClientTest, TriesAgainAsOftenAsAllowed) {
  client({answer(503), answer(500), answer(200)}, 2).send({.url = "https://hub.test/a"});
  EXPECT_EQ(asked_.size(), 3U);
  asked_.clear();
  auto hub = client({answer(503), answer(500), answer(200)}, 1);
  EXPECT_THROW(hub.send({.url = "https://hub.test/a"}), HubError);
  EXPECT_EQ(asked_.size(), 2U);
}

TEST_F(HubClientTest, WaitsAsTheHubAsksButNoMoreThanTenMinutesForOneRequest) {
  const auto asking = [](int status, int seconds) {
    HttpResponse response = answer(status);
    response.retry_after = std::chrono::seconds(seconds);
    return response;
  };
  const HttpResponse limit = answer(429, {{"ratelimit", R"("api";r=0;t=599)"}});
  for (const auto& second : {asking(503, 600), limit}) {
    asked_.clear();
    auto hub = client({asking(503, 1), second, answer(200)}, 5);
    const auto message = message_of<HubError>([&] { hub.send({.url = "https://hub.test/a"}); });
    EXPECT_TRUE(contains(message, " 600 s")) << message;
    EXPECT_TRUE(message.ends_with(" [accelerate.error/hub-busy]")) << message;
    EXPECT_EQ(asked_.size(), 2U);
  }
}

TEST_F(HubClientTest, DoesNotTryAgainWhatWillBeRefusedAgain) {
  for (const int status : {400, 401, 403, 404, 409, 412, 501, 505, 507, 511}) {
    asked_.clear();
    auto hub = client({answer(status), answer(200)}, 5);
    EXPECT_THROW(hub.send({.url = "https://hub.test/a"}), HubError) << status;
    EXPECT_EQ(asked_.size(), 1U) << status;
  }
}

TEST_F(HubClientTest, DoesNotRepeatARedirectThatIsRefused) {
  for (const char* target : {"http://hub.test/", "ftp://hub.test/", "/a"}) {
    asked_.clear();
    auto hub = client(std::deque<HttpResponse>(200, redirect(target)), 5);
    EXPECT_THROW(hub.send({.url = "https://hub.test/a"}), NetworkError) << target;
    EXPECT_LE(asked_.size(), 20U) << target;
  }
}

TEST_F(HubClientTest, SendsNothingWithoutEncryptionWhenTheEndpointHasIt) {
  auto hub = client({answer(200)});
  const auto message =
      message_of<NetworkError>([&] { hub.post("http://cdn.test/x?Signature=secret", "{}", {}); });
  EXPECT_TRUE(contains(message, "http://cdn.test/x, which is not encrypted")) << message;
  EXPECT_TRUE(asked_.empty());
}

TEST_F(HubClientTest, UploadsToNoPlaceWithoutEncryption) {
  const CommitOperationAdd add{"a.bin", std::string("content")};
  const std::vector<CommitFile> files{
      {.operation = &add, .path = "a.bin", .size_bytes = 7, .is_large = true, .oid = "abc"}};
  const std::string actions[] = {
      R"("upload": {"href": "http://s3.test/x"})",
      R"("upload": {"href": "https://s3.test/x"}, "verify": {"href": "http://hub.test/v"})",
      R"("upload": {"href": "https://s3.test/x", "header": {"chunk_size": 7, "1": "http://s3.test/1"}})"};
  for (const std::string& action : actions) {
    auto hub =
        client({answer(200, {}, R"({"objects": [{"oid": "abc", "actions": {)" + action + "}}]}")});
    const auto message = message_of<NetworkError>([&] { upload_large_files(hub, model_, files); });
    EXPECT_TRUE(contains(message, "which is not encrypted")) << message;
  }
}

struct RefusalCase {
  int status;
  std::vector<std::pair<std::string, std::string>> headers;
  HubReason reason;
  const char* cure;
};

TEST_F(HubClientTest, NamesReasonAndCure) {
  const RefusalCase cases[] = {
      {401,
       {{"x-error-message", "Invalid credentials in Authorization header"}},
       HubReason::unauthorized,
       "accelerate hub login"},
      {401, {}, HubReason::repository_not_found, "or it is private"},
      {401,
       {{"x-error-code", "GatedRepo"}},
       HubReason::gated,
       "accept it on the repository's page"},
      {403, {}, HubReason::forbidden, "settings/tokens"},
      {404, {{"x-error-code", "RepoNotFound"}}, HubReason::repository_not_found, "Check the name"},
      {404,
       {{"x-error-code", "RevisionNotFound"}},
       HubReason::revision_not_found,
       "no revision 'main'"},
      {404, {{"x-error-code", "EntryNotFound"}}, HubReason::file_not_found, "no such file"},
      {409, {}, HubReason::conflict, "exists already"},
      {412, {}, HubReason::conflict, "Another commit came first"},
      {429, {}, HubReason::rate_limited, "Wait some minutes"},
      {500, {}, HubReason::server_failure, "Try again later"},
  };
  for (const auto& [status, headers, reason, cure] : cases) {
    auto hub = client({answer(status, headers)});
    try {
      hub.get("https://hub.test/api?signature=secret", model_);
      FAIL() << status;
    } catch (const HubError& error) {
      const std::string message = error.what();
      EXPECT_EQ(error.reason(), reason) << message;
      EXPECT_EQ(error.status(), status);
      EXPECT_TRUE(contains(message, cure)) << message;
      EXPECT_TRUE(contains(message, std::to_string(status))) << message;
      EXPECT_FALSE(contains(message, "secret")) << message;
    }
  }
}

TEST_F(HubClientTest, ShowsAServersWordsWithoutItsControlCharacters) {
  auto hub = client({answer(400, {{"x-error-message", "bad \x1b[31mred"}})});
  const auto message = message_of<HubError>([&] { hub.get("https://hub.test/", model_); });
  EXPECT_TRUE(contains(message, "bad ?[31mred")) << message;
}

TEST_F(HubClientTest, WaitsAsLongAsTheRateLimitSays) {
  auto hub = client({answer(429, {{"ratelimit", "\"api\";r=0;t=1"}}), answer(200)}, 1);
  const auto start = std::chrono::steady_clock::now();
  hub.send({.url = "https://hub.test/a"});
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST_F(HubClientTest, MapsTheOriginalsAddressToAMirror) {
  auto hub = client({});
  EXPECT_EQ(hub.on_this_endpoint("https://huggingface.co/a/b"), "https://hub.test/a/b");
  EXPECT_EQ(hub.on_this_endpoint("https://huggingface.co.evil/a"), "https://huggingface.co.evil/a");
}

TEST_F(HubClientTest, RefusesWorkersBeyondReason) {
  HubOptions options;
  for (const int workers : {0, -1, 65}) {
    options.max_workers = workers;
    EXPECT_THROW(HubClient(options, nullptr), ConfigError) << workers;
  }
}

TEST_F(HubClientTest, EndpointMustBeAUrl) {
  for (const char* endpoint : {"foo", "ftp://a", "https://user:pw@host"}) {
    const testing::ScopedEnv variable("HF_ENDPOINT", endpoint);
    const auto message = message_of<ConfigError>([] { (void)hub_endpoint(); });
    EXPECT_TRUE(contains(message, "https://huggingface.co")) << message;
  }
}

}  // namespace
}  // namespace accelerate::detail
