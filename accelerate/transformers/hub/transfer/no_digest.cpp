// Built instead of crypto_digest.cpp if OpenSSL's headers are missing.
#include "accelerate/transformers/hub/transfer/digest.h"

namespace accelerate::detail {

std::unique_ptr<Digest> make_sha256() {
  return nullptr;
}

std::unique_ptr<Digest> make_git_sha1(std::uint64_t) {
  return nullptr;
}

std::string why_no_digest() {
  return "this build cannot check what it downloads, since OpenSSL's headers were missing. Install "
         "them (`apt-get install libssl-dev`) and build again";
}

}  // namespace accelerate::detail
