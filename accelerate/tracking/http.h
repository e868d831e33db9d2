// What the tracker mlflow asks of a network, behind an interface so that tests can be the network.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace accelerate::detail {

struct HttpRequest {
  std::string method = "GET";  ///< GET, POST, PUT
  std::string url;             ///< http or https
  std::string body;
  std::string content_type = "application/json";
};

struct HttpResponse {
  int status = 0;
  std::string body;                                 ///< At most 4 MiB; a longer one is an error.
  std::optional<std::chrono::seconds> retry_after;  ///< At most ten minutes.
};

class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  /// Any status is a response. Throws NetworkError when there is none: no name, no connection, a
  /// time limit passed. Redirects are not followed, so that credentials stay with their host.
  virtual HttpResponse send(const HttpRequest& request) = 0;
  /// Makes a send() that is under way on another thread end soon, and those to come.
  virtual void cancel() {}
};

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds timeout{20'000};  ///< Of a whole exchange.
  std::string bearer_token;                   ///< "" for none.
  std::string username, password;             ///< Basic authentication; "" for none.
  bool verify_certificates = true;
  /// A file of authorities to trust instead of the system's; "" for none.
  std::string certificates;
};

/// Over libcurl. Null in a build without it.
[[nodiscard]] std::unique_ptr<HttpTransport> make_http_transport(const HttpOptions& options);
[[nodiscard]] bool has_http_transport();

/// `text` for a path or query of a URL; `keep` are characters that stay as they are.
[[nodiscard]] std::string url_escape(std::string_view text, std::string_view keep = "");

}  // namespace accelerate::detail
