#include <curl/curl.h>

#include <algorithm>
#include <array>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/tracking/http.h"

namespace accelerate::detail {
namespace {

constexpr std::size_t kMostOfBody = 4 << 20;
constexpr std::int64_t kMostSecondsToWait = 600;

struct Headers {
  curl_slist* list = nullptr;
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
  Headers() = default;
  ~Headers() { curl_slist_free_all(list); }
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;
};

std::size_t take_body(char* data, std::size_t, std::size_t size, void* target) {
  auto& body = static_cast<HttpResponse*>(target)->body;
  if (body.size() + size > kMostOfBody) return 0;  // Ends the transfer as an error.
  body.append(data, size);
  return size;
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* target) {
  const std::string_view line(data, size);
  const auto colon = line.find(':');
  if (colon != std::string_view::npos && lower(line.substr(0, colon)) == "retry-after") {
    if (const auto seconds = parse_int(trim(line.substr(colon + 1))); seconds && *seconds >= 0) {
      static_cast<HttpResponse*>(target)->retry_after =
          std::chrono::seconds(std::min(*seconds, kMostSecondsToWait));
    }
  }
  return size;
}

int stop_when_cancelled(void* cancelled, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<std::atomic<bool>*>(cancelled)->load() ? 1 : 0;
}

class CurlTransport final : public HttpTransport {
 public:
  explicit CurlTransport(HttpOptions options) : options_(std::move(options)) {
    static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
    handle_ = ready == CURLE_OK ? curl_easy_init() : nullptr;
    if (handle_ == nullptr) throw NetworkError("libcurl could not be initialised");
  }
  ~CurlTransport() override { curl_easy_cleanup(handle_); }
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  HttpResponse send(const HttpRequest& request) override;
  void cancel() override { cancelled_ = true; }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_easy_setopt(handle_, option, value);
  }
  void set_limits();
  void set_credentials(Headers& headers);
  void set_request(const HttpRequest& request, HttpResponse& response);

  HttpOptions options_;
  CURL* handle_ = nullptr;
  std::atomic<bool> cancelled_ = false;
};

void CurlTransport::set_limits() {
  set(CURLOPT_NOSIGNAL, 1L);  // Time limits by signals are not for a library with threads.
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(options_.timeout.count()));
  set(CURLOPT_FOLLOWLOCATION, 0L);
#if LIBCURL_VERSION_NUM >= 0x075500
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#else
  set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, stop_when_cancelled);
  set(CURLOPT_XFERINFODATA, &cancelled_);
}

void CurlTransport::set_credentials(Headers& headers) {
  if (!options_.bearer_token.empty()) {
    headers.add("Authorization: Bearer " + options_.bearer_token);
  } else if (!options_.username.empty()) {
    set(CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    set(CURLOPT_USERNAME, options_.username.c_str());
    set(CURLOPT_PASSWORD, options_.password.c_str());
  }
  if (!options_.verify_certificates) {
    set(CURLOPT_SSL_VERIFYPEER, 0L);
    set(CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!options_.certificates.empty()) set(CURLOPT_CAINFO, options_.certificates.c_str());
}

void CurlTransport::set_request(const HttpRequest& request, HttpResponse& response) {
  set(CURLOPT_URL, request.url.c_str());
  if (request.method != "GET") {
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
  }
  set(CURLOPT_WRITEFUNCTION, take_body);
  set(CURLOPT_WRITEDATA, &response);
  set(CURLOPT_HEADERFUNCTION, take_header);
  set(CURLOPT_HEADERDATA, &response);
}

HttpResponse CurlTransport::send(const HttpRequest& request) {
  HttpResponse response;
  Headers headers;
  curl_easy_reset(handle_);  // Options go, the connection stays open.
  set_limits();
  set_credentials(headers);
  headers.add("Content-Type: " + request.content_type);
  headers.add("Expect:");
  set(CURLOPT_HTTPHEADER, headers.list);
  set_request(request, response);
  std::array<char, CURL_ERROR_SIZE> reason{};
  set(CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = curl_easy_perform(handle_);
  if (code != CURLE_OK) {
    throw NetworkError(reason[0] != '\0' ? reason.data() : curl_easy_strerror(code));
  }
  long status = 0;
  curl_easy_getinfo(handle_, CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  return response;
}

}  // namespace

std::unique_ptr<HttpTransport> make_http_transport(const HttpOptions& options) {
  return std::make_unique<CurlTransport>(options);
}

bool has_http_transport() {
  return true;
}

}  // namespace accelerate::detail
