#include <curl/curl.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <exception>
#include <string>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"
#include "accelerate/base/file_system.h"
#include "accelerate/base/http/http.h"
#include "accelerate/base/text.h"

namespace accelerate::detail {
namespace {

struct CurlLibrary {
  decltype(&curl_global_init) global_init = nullptr;
  decltype(&curl_easy_init) easy_init = nullptr;
  decltype(&curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&curl_easy_reset) easy_reset = nullptr;
  decltype(&curl_easy_setopt) easy_setopt = nullptr;
  decltype(&curl_easy_perform) easy_perform = nullptr;
  decltype(&curl_easy_getinfo) easy_getinfo = nullptr;
  decltype(&curl_easy_strerror) easy_strerror = nullptr;
  decltype(&curl_slist_append) slist_append = nullptr;
  decltype(&curl_slist_free_all) slist_free_all = nullptr;
  std::string fault;  ///< Why it cannot be used; "" when it can.
};

void* opened() {
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL); library != nullptr) return library;
  }
  return nullptr;
}

CurlLibrary loaded() {
  CurlLibrary curl;
  void* const library = opened();
  if (library == nullptr) {
    curl.fault = "libcurl.so.4 is not there. Install it: `apt-get install libcurl4`";
    return curl;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) curl.fault = std::string("libcurl.so.4 has no function ") + name;
  };
  find(curl.global_init, "curl_global_init");
  find(curl.easy_init, "curl_easy_init");
  find(curl.easy_cleanup, "curl_easy_cleanup");
  find(curl.easy_reset, "curl_easy_reset");
  find(curl.easy_setopt, "curl_easy_setopt");
  find(curl.easy_perform, "curl_easy_perform");
  find(curl.easy_getinfo, "curl_easy_getinfo");
  find(curl.easy_strerror, "curl_easy_strerror");
  find(curl.slist_append, "curl_slist_append");
  find(curl.slist_free_all, "curl_slist_free_all");
  if (curl.fault.empty() && curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
    curl.fault = "libcurl could not be initialised";
  return curl;
}

// Returns the functions. The first call opens and initialises the library. Threads: any.
const CurlLibrary& curl_library() {
  static const CurlLibrary curl = loaded();
  return curl;
}

constexpr std::size_t kMostHeaders = 256, kMostHeaderBytes = 128U << 10;
constexpr std::int64_t kMostSecondsToWait = 600;
constexpr long kLeastBytesPerSecond = 1000;  // A server that sends less keeps a client for days.
constexpr long kBufferBytes = 512L << 10;    // The default, 16 KiB, makes too many system calls.

struct Headers {
  curl_slist* list = nullptr;
  void add(const std::string& line) { list = curl_library().slist_append(list, line.c_str()); }
  Headers() = default;
  ~Headers() { curl_library().slist_free_all(list); }
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;
};

// What the callbacks of one exchange share.
struct Exchange {
  explicit Exchange(const HttpRequest& asked) : request(asked) {}
  const HttpRequest& request;
  HttpResponse response;
  Descriptor file;
  std::uint64_t read_bytes = 0;  // Bytes of HttpRequest::file that were read.
  std::size_t header_bytes = 0;  // Of interim answers, too.
  CURL* handle = nullptr;
  std::exception_ptr failure;  // What a callback threw.
};

int status_of(const Exchange& exchange) {
  long status = 0;
  curl_library().easy_getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

void take_piece(Exchange& exchange, std::string_view piece) {
  HttpResponse& response = exchange.response;
  response.status = status_of(exchange);
  const bool is_content = response.status == 200 || response.status == 206;
  if (exchange.request.receive && is_content) {
    exchange.request.receive(response, piece);
    return;
  }
  const std::size_t most = exchange.request.most_body_bytes;
  if (response.body.size() + piece.size() > most)
    throw LastingNetworkError("the answer is longer than " +
                              format_bytes(static_cast<double>(most)));
  response.body.append(piece);
}

// libcurl is C, so an exception must not pass through it. It waits in the exchange.
template <typename Body>
std::size_t guarded(Exchange& exchange, std::size_t failed, Body body) noexcept {
  try {
    return body();
  } catch (...) {
    exchange.failure = std::current_exception();
    return failed;
  }
}

std::size_t take_body(char* data, std::size_t, std::size_t size, void* target) {
  Exchange& exchange = *static_cast<Exchange*>(target);
  return guarded(exchange, 0, [&] {
    take_piece(exchange, {data, size});
    return size;
  });
}

void take_line(HttpResponse& response, std::string_view line) {
  if (line.starts_with("HTTP/")) response = {};  // The real answer follows an interim one.
  const auto colon = line.find(':');
  if (colon == std::string_view::npos || response.headers.size() == kMostHeaders) return;
  std::string name = lower(trim(line.substr(0, colon)));
  std::string value(trim(line.substr(colon + 1)));
  const auto seconds = name == "retry-after" ? parse_int(value) : std::nullopt;
  if (seconds && *seconds >= 0)
    response.retry_after = std::chrono::seconds(std::min(*seconds, kMostSecondsToWait));
  response.headers.emplace_back(std::move(name), std::move(value));
}

std::size_t take_header(char* data, std::size_t, std::size_t size, void* target) {
  Exchange& exchange = *static_cast<Exchange*>(target);
  return guarded(exchange, 0, [&] {
    exchange.header_bytes += size;
    if (exchange.header_bytes > kMostHeaderBytes)
      throw LastingNetworkError("the headers of the answer are longer than 128 KiB");
    take_line(exchange.response, {data, size});
    return size;
  });
}

std::size_t read_piece(Exchange& exchange, char* data, std::size_t room) {
  const HttpFile& file = *exchange.request.file;
  const std::size_t wanted = std::min<std::uint64_t>(room, file.size_bytes - exchange.read_bytes);
  const auto at = static_cast<off_t>(file.offset_bytes + exchange.read_bytes);
  const ssize_t count = ::pread(exchange.file.get(), data, wanted, at);
  if (count < 0) throw FileError("read", file.path, errno);
  if (count == 0 && wanted > 0)
    throw FileError("read", file.path, "it became shorter while it was sent");
  exchange.read_bytes += static_cast<std::uint64_t>(count);
  if (exchange.request.sent) exchange.request.sent(static_cast<std::uint64_t>(count));
  return static_cast<std::size_t>(count);
}

std::size_t give_file(char* data, std::size_t, std::size_t room, void* source) {
  Exchange& exchange = *static_cast<Exchange*>(source);
  return guarded(exchange, CURL_READFUNC_ABORT, [&] { return read_piece(exchange, data, room); });
}

int rewind_file(void* source, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset != 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<Exchange*>(source)->read_bytes = 0;
  return CURL_SEEKFUNC_OK;
}

// Whether another try would fail in the same way.
bool is_lasting(CURLcode code) {
  switch (code) {
    case CURLE_UNSUPPORTED_PROTOCOL:  // Or an answer that is not HTTP.
    case CURLE_URL_MALFORMAT:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return true;
    default:
      return false;
  }
}

int stop_when_cancelled(void* cancelled, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<std::atomic<bool>*>(cancelled)->load() ? 1 : 0;
}

class CurlTransport final : public HttpTransport {
 public:
  explicit CurlTransport(HttpOptions options)
      : options_(std::move(options)), handle_(curl_library().easy_init()) {
    if (handle_ == nullptr) throw NetworkError("libcurl could not be initialised");
  }
  ~CurlTransport() override { curl_library().easy_cleanup(handle_); }
  CurlTransport(const CurlTransport&) = delete;
  CurlTransport& operator=(const CurlTransport&) = delete;

  HttpResponse send(const HttpRequest& request) override;
  void cancel() override { cancelled_ = true; }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    curl_library().easy_setopt(handle_, option, value);
  }
  void set_limits(const HttpRequest& request);
  void set_credentials(Headers& headers);
  void set_request(Exchange& exchange);
  void set_file(Exchange& exchange);
  void perform(Exchange& exchange);

  HttpOptions options_;
  CURL* handle_ = nullptr;
  std::atomic<bool> cancelled_ = false;
};

void CurlTransport::set_limits(const HttpRequest& request) {
  set(CURLOPT_NOSIGNAL, 1L);  // Time limits by signals are not safe with threads.
  set(CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout.count()));
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.value_or(options_.timeout).count()));
  const auto stall = std::chrono::ceil<std::chrono::seconds>(
      request.stall_timeout.value_or(options_.stall_timeout));
  if (stall.count() > 0) {
    set(CURLOPT_LOW_SPEED_LIMIT, kLeastBytesPerSecond);
    set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(stall.count()));
  }
  set(CURLOPT_BUFFERSIZE, kBufferBytes);
  set(CURLOPT_UPLOAD_BUFFERSIZE, kBufferBytes);
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
  if (!options_.user_agent.empty()) set(CURLOPT_USERAGENT, options_.user_agent.c_str());
}

void CurlTransport::set_file(Exchange& exchange) {
  const HttpFile& file = *exchange.request.file;
  exchange.file = Descriptor(::open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!exchange.file.valid()) throw FileError("open", file.path, errno);
  set(CURLOPT_UPLOAD, 1L);
  set(CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(file.size_bytes));
  set(CURLOPT_READFUNCTION, give_file);
  set(CURLOPT_READDATA, &exchange);
  set(CURLOPT_SEEKFUNCTION, rewind_file);
  set(CURLOPT_SEEKDATA, &exchange);
}

void CurlTransport::set_request(Exchange& exchange) {
  const HttpRequest& request = exchange.request;
  set(CURLOPT_URL, request.url.c_str());
  if (request.is_sent_once) set(CURLOPT_FRESH_CONNECT, 1L);
  if (request.method == "HEAD") {
    set(CURLOPT_NOBODY, 1L);
  } else if (request.file) {
    set_file(exchange);
  } else if (request.method != "GET") {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.data());
  }
  if (request.method != "GET" && request.method != "HEAD")
    set(CURLOPT_CUSTOMREQUEST, request.method.c_str());
  set(CURLOPT_WRITEFUNCTION, take_body);
  set(CURLOPT_WRITEDATA, &exchange);
  set(CURLOPT_HEADERFUNCTION, take_header);
  set(CURLOPT_HEADERDATA, &exchange);
}

void CurlTransport::perform(Exchange& exchange) {
  std::array<char, CURL_ERROR_SIZE> reason{};
  set(CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = curl_library().easy_perform(handle_);
  if (exchange.failure) std::rethrow_exception(exchange.failure);
  if (code == CURLE_OK) return;
  const std::string why = reason[0] != '\0' ? reason.data() : curl_library().easy_strerror(code);
  if (is_lasting(code)) throw LastingNetworkError(why);
  throw NetworkError(why);
}

HttpResponse CurlTransport::send(const HttpRequest& request) {
  Exchange exchange(request);
  exchange.handle = handle_;
  Headers headers;
  curl_library().easy_reset(handle_);  // Resets the options; the connection stays open.
  set_limits(request);
  set_credentials(headers);
  for (const auto& line : request.headers) headers.add(line);
  const bool has_body = request.file || (request.method != "GET" && request.method != "HEAD");
  if (has_body) {
    headers.add("Content-Type:" + (request.content_type.empty() ? "" : " " + request.content_type));
  }
  headers.add("Expect:");
  set(CURLOPT_HTTPHEADER, headers.list);
  set_request(exchange);
  perform(exchange);
  exchange.response.status = status_of(exchange);
  return std::move(exchange.response);
}

}  // namespace

std::unique_ptr<HttpTransport> make_http_transport(const HttpOptions& options) {
  if (!has_http_transport()) return nullptr;
  return std::make_unique<CurlTransport>(options);
}

bool has_http_transport() {
  return curl_library().fault.empty();
}

std::string why_no_http_transport() {
  return curl_library().fault;
}

}  // namespace accelerate::detail
