#include "accelerate/base/http/curl_library.h"

#include <dlfcn.h>

namespace accelerate::detail {
namespace {

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

}  // namespace

const CurlLibrary& curl_library() {
  static const CurlLibrary curl = loaded();
  return curl;
}

}  // namespace accelerate::detail
