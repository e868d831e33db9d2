// One HTTP exchange, behind an interface so that tests can be the network. The hub and the tracker
// mlflow share it.
//
// make_http_transport() opens libcurl when it is first called, so that a program that uses no
// network does not pay for loading it.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "accelerate/base/error.h"

namespace accelerate::detail {

/// A failure that sending the request again would not cure: a certificate that is not trusted, an
/// answer that is too long, a redirect that is refused.
class LastingNetworkError : public NetworkError {
 public:
  using NetworkError::NetworkError;
};

struct HttpResponse {
  int status = 0;
  std::string body = {};                                 ///< At most HttpRequest::most_body_bytes.
  std::optional<std::chrono::seconds> retry_after = {};  ///< At most ten minutes.
  /// In order of arrival, with names in lower case. At most 256 are kept.
  std::vector<std::pair<std::string, std::string>> headers = {};

  /// The last header called `name`, which must be in lower case; nullopt if none.
  [[nodiscard]] std::optional<std::string> header(std::string_view name) const;
};

/// A piece of a file that a request sends as its body.
struct HttpFile {
  std::filesystem::path path;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
};

struct HttpRequest {
  std::string method = "GET";  ///< GET, HEAD, POST, PUT, DELETE
  std::string url = {};        ///< http or https
  std::string body = {};
  std::string content_type = "application/json";  ///< Type of the body; "" sends no such header.
  std::vector<std::string> headers = {};          ///< "Name: value"
  std::optional<HttpFile> file = {};              ///< Sent instead of `body`, without a copy.
  /// Called for each piece of the body of an answer with status 200 or 206, instead of keeping it.
  /// `head` has the status and the headers. An exception ends the exchange and leaves send().
  std::function<void(const HttpResponse& head, std::string_view piece)> receive = {};
  /// Opens a new connection for this request, so that it is never sent twice. On a kept connection
  /// libcurl sends it again when the server closes without an answer. Yet the server may have taken
  /// the request.
  bool is_sent_once = false;
  std::size_t most_body_bytes = 4 << 20;  ///< A longer answer is a LastingNetworkError.
  /// Each replaces the option of the same name in HttpOptions for this request.
  std::optional<std::chrono::milliseconds> stall_timeout = {}, timeout = {};
  /// Called with the bytes of `file` that were handed to the network since the last call.
  std::function<void(std::uint64_t bytes)> sent = {};
};

class HttpTransport {
 public:
  virtual ~HttpTransport() = default;
  /// Sends `request` and returns the answer, whatever its status. Throws NetworkError when there is
  /// no answer (no name, no connection, a time limit passed), and LastingNetworkError when another
  /// try cannot help (an answer that is too long, an untrusted certificate). Throws FileError
  /// when HttpRequest::file cannot be read. Redirects are not followed, so that credentials stay
  /// with their host.
  virtual HttpResponse send(const HttpRequest& request) = 0;
  /// Soon ends a send() that is under way on another thread, and every later one.
  virtual void cancel() {}
};

struct HttpOptions {
  std::chrono::milliseconds connect_timeout{5000};
  std::chrono::milliseconds timeout{20'000};  ///< For a whole exchange; 0 for none.
  /// Ends an exchange in which fewer than 1,000 bytes a second moved for this long; 0 for none.
  /// Rounded up to seconds.
  std::chrono::milliseconds stall_timeout{0};
  std::string bearer_token = {};             ///< Sent with every request; "" for none.
  std::string username = {}, password = {};  ///< Basic authentication; "" for none.
  bool verify_certificates = true;
  /// A file of authorities to trust instead of the system's; "" for none.
  std::string certificates = {};
  std::string user_agent = {};  ///< "" for none.
};

/// Makes a transport over libcurl; null where has_http_transport() is false. Proxies come from the
/// environment: http_proxy, https_proxy, all_proxy, no_proxy.
[[nodiscard]] std::unique_ptr<HttpTransport> make_http_transport(const HttpOptions& options);
/// Whether this build was made with libcurl and the system has it.
[[nodiscard]] bool has_http_transport();
/// Why has_http_transport() is false, with the cure; "" where it is true.
[[nodiscard]] std::string why_no_http_transport();

}  // namespace accelerate::detail
