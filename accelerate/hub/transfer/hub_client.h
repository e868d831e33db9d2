// Speaks HTTP with the hub: adds the token where it belongs, follows redirects, tries again, and
// turns refusals into HubError.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/http/http.h"
#include "accelerate/http/url.h"
#include "accelerate/hub/hub_error.h"
#include "accelerate/hub/repository.h"

namespace accelerate::detail {

/// What is asked for, for messages.
struct HubSubject {
  std::string id = {};  ///< "" where no repository is meant.
  RepoType type = RepoType::model;
  std::string revision = {};
  std::string file = {};
};

enum class Redirects {
  all,      ///< To other hosts too, without the token.
  own_host  ///< An answer that leads to another host is returned as it is.
};

/// Throws ConfigError when `repo_id` is no id or HubOptions::revision no safe path.
[[nodiscard]] HubSubject checked_subject(const std::string& repo_id, const HubOptions& options);

struct HubCall {
  HubSubject subject = {};
  Redirects redirects = Redirects::all;
  bool retries = true;  ///< Whether the request may be sent twice.
};

/// One connection to the hub. Threads: one at a time; make one for each thread.
class HubClient {
 public:
  /// Throws ConfigError for an endpoint that is no URL or a token that cannot be sent, NetworkError
  /// when this build or this system has no network, and when HF_HUB_OFFLINE says to use none.
  explicit HubClient(const HubOptions& options);
  /// `transport` is the network: for tests.
  HubClient(const HubOptions& options, std::unique_ptr<HttpTransport> transport);

  /// Returns an answer with a status below 400. Throws HubError for others, NetworkError without an
  /// answer; both after HubOptions::max_retries where HubCall::retries.
  HttpResponse send(HttpRequest request, const HubCall& call = {});
  /// GET; the answer must be JSON text, which is returned.
  std::string get(const std::string& url, const HubSubject& subject);
  /// POST of JSON.
  std::string post(const std::string& url, const std::string& json, const HubSubject& subject);

  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  /// "<endpoint>/api/models/<id>" and `rest`.
  [[nodiscard]] std::string api_url(const HubSubject& subject, const std::string& rest = "") const;
  /// Where a file's content is: "<endpoint>/<id>/resolve/<revision>/<file>".
  [[nodiscard]] std::string file_url(const HubSubject& subject) const;
  /// "https://huggingface.co/x" in an answer of a mirror means the mirror. Source:
  /// `fix_hf_endpoint_in_url`.
  [[nodiscard]] std::string on_this_endpoint(std::string url) const;
  [[nodiscard]] bool has_token() const { return !token_.empty(); }
  [[nodiscard]] const HubOptions& options() const { return options_; }

  /// Waits before try number `tries` (1 for the first retry) of what failed by `error`; false when
  /// there were enough, or trying again cannot help.
  bool wait_for_retry(int tries, const NetworkError& error);

 private:
  HttpResponse send_once(HttpRequest request, const HubCall& call);
  HttpResponse exchange(HttpRequest request);

  HubOptions options_;
  std::string endpoint_;
  Origin origin_;
  std::string token_;
  std::unique_ptr<HttpTransport> transport_;
};

/// Why the hub cannot be asked at all: no libcurl, no OpenSSL; "" where it can.
[[nodiscard]] std::string why_no_network();

}  // namespace accelerate::detail
