// Built instead of curl_transport.cpp where libcurl's headers are missing.
#include "accelerate/base/http/http.h"

namespace accelerate::detail {

std::unique_ptr<HttpTransport> make_http_transport(const HttpOptions&) {
  return nullptr;
}

bool has_http_transport() {
  return false;
}

std::string why_no_http_transport() {
  return "this build has no network, since libcurl's headers were missing. Install them "
         "(`apt-get install libcurl4-openssl-dev`) and build again";
}

}  // namespace accelerate::detail
