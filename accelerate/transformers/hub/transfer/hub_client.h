// Speaks HTTP with the hub: adds the token where it is needed, follows redirects, retries, and
// turns refusals into HubError.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/base/http/http.h"
#include "accelerate/base/http/url.h"
#include "accelerate/transformers/hub/hub_error.h"
#include "accelerate/transformers/hub/repository.h"
#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate::detail {

// Looks into the JSON of answers, which may have any value anywhere. Its objects find keys quickly:
// a hostile answer may have millions.

/// Returns null if there is no such member.
[[nodiscard]] inline nlohmann::json member(const nlohmann::json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : nlohmann::json();
}

/// Returns "" if there is no such member, or it is no text.
[[nodiscard]] inline std::string text_in(const nlohmann::json& object, const char* key) {
  const nlohmann::json text = member(object, key);
  return text.is_string() ? text.get<std::string>() : "";
}

// Turns an answer that refuses into a HubError with a remedy.

/// Returns the error for `response`, whose status is 400 or above. `url` is the last URL that was
/// requested; its query, which may hold a signature, is left out of the message.
[[nodiscard]] HubError refusal_of(const HttpResponse& response, const HubSubject& subject,
                                  const std::string& url, bool has_token);

enum class Redirects {
  all,      ///< Follows redirects to other hosts too, without the token.
  own_host  ///< Returns a redirect to another host as the answer.
};

struct HubCall {
  HubSubject subject = {};
  Redirects redirects = Redirects::all;
  bool retries = true;  ///< Whether the request may be sent again.
};

/// What was done so far for a request that failed.
struct Retries {
  int made = 0;
  std::chrono::seconds asked_wait{0};  ///< What was waited because the hub asked for it.
};

/// One connection to the hub. Threads: use it from one thread at a time; make one for each thread.
class HubClient {
 public:
  /// Throws ConfigError for an endpoint that is not a URL or a token that cannot be sent. Throws
  /// NetworkError when this build or this system has no network, or HF_HUB_OFFLINE forbids its use.
  explicit HubClient(const HubOptions& options);
  /// Uses `transport` as the network, for tests.
  HubClient(const HubOptions& options, std::unique_ptr<HttpTransport> transport);

  /// Sends a request and returns an answer with a status below 400. Throws HubError for any other
  /// status, NetworkError if there is no answer. Both are thrown after HubOptions::max_retries if
  /// HubCall::retries is true. What another try cannot cure is thrown at once; a URL without
  /// encryption under an endpoint of https is a LastingNetworkError.
  HttpResponse send(HttpRequest request, const HubCall& call = {});
  /// Sends a GET request and returns the body, which should be JSON text.
  std::string get(const std::string& url, const HubSubject& subject);
  /// Sends a POST request with JSON and returns the body.
  std::string post(const std::string& url, const std::string& json, const HubSubject& subject);

  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  /// Returns "<endpoint>/api/models/<id>" followed by `rest`.
  [[nodiscard]] std::string api_url(const HubSubject& subject, const std::string& rest = "") const;
  /// Returns the URL of a file's content: "<endpoint>/<id>/resolve/<revision>/<file>".
  [[nodiscard]] std::string file_url(const HubSubject& subject) const;
  /// Replaces "https://huggingface.co" at the beginning of `url` by the endpoint, because a
  /// mirror's answers may name the original hub. Source: `fix_hf_endpoint_in_url`.
  [[nodiscard]] std::string on_this_endpoint(std::string url) const;
  /// Throws LastingNetworkError for a URL without encryption under an endpoint of https.
  void check_encryption(const std::string& url) const;
  [[nodiscard]] bool has_token() const { return !token_.empty(); }
  [[nodiscard]] const HubOptions& options() const { return options_; }

  /// Waits before the next retry of a request that failed with `error`, and counts it. Returns
  /// false, without a wait, if there were enough retries, if another one cannot help, or if the hub
  /// asks for more than ten minutes in all.
  bool wait_for_retry(Retries& retries, const NetworkError& error);

 private:
  HttpResponse send_once(HttpRequest request, const HubCall& call);
  HttpResponse exchange(HttpRequest request);

  HubOptions options_;
  std::string endpoint_;
  Origin origin_;
  std::string token_;
  std::unique_ptr<HttpTransport> transport_;
};

/// Returns why the hub cannot be asked at all: no libcurl, no OpenSSL; "" if it can.
[[nodiscard]] std::string why_no_network();

}  // namespace accelerate::detail
