// Digests by OpenSSL's libcrypto, which is loaded at first use: see base/http/curl_transport.cpp.
#include <dlfcn.h>
#include <openssl/evp.h>

#include <array>

#include "accelerate/base/error.h"
#include "accelerate/base/hex.h"
#include "accelerate/transformers/hub/transfer/digest.h"

namespace accelerate::detail {
namespace {

struct CryptoLibrary {
  decltype(&EVP_MD_CTX_new) context_new = nullptr;
  decltype(&EVP_MD_CTX_free) context_free = nullptr;
  decltype(&EVP_DigestInit_ex) init = nullptr;
  decltype(&EVP_DigestUpdate) update = nullptr;
  decltype(&EVP_DigestFinal_ex) final = nullptr;
  decltype(&EVP_sha256) sha256 = nullptr;
  decltype(&EVP_sha1) sha1 = nullptr;
  std::string fault;
};

CryptoLibrary loaded() {
  constexpr const char* kName = OPENSSL_VERSION_MAJOR >= 3 ? "libcrypto.so.3" : "libcrypto.so.1.1";
  CryptoLibrary crypto;
  void* const library = dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    crypto.fault = std::string(kName) + " is not there. Install it: `apt-get install openssl`";
    return crypto;
  }
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr) crypto.fault = std::string(kName) + " has no function " + name;
  };
  find(crypto.context_new, "EVP_MD_CTX_new");
  find(crypto.context_free, "EVP_MD_CTX_free");
  find(crypto.init, "EVP_DigestInit_ex");
  find(crypto.update, "EVP_DigestUpdate");
  find(crypto.final, "EVP_DigestFinal_ex");
  find(crypto.sha256, "EVP_sha256");
  find(crypto.sha1, "EVP_sha1");
  return crypto;
}

const CryptoLibrary& crypto_library() {
  static const CryptoLibrary crypto = loaded();
  return crypto;
}

class CryptoDigest final : public Digest {
 public:
  explicit CryptoDigest(const EVP_MD* kind) : context_(crypto_library().context_new()) {
    check(context_ != nullptr && crypto_library().init(context_, kind, nullptr) == 1);
  }
  ~CryptoDigest() override { crypto_library().context_free(context_); }
  CryptoDigest(const CryptoDigest&) = delete;
  CryptoDigest& operator=(const CryptoDigest&) = delete;

  void update(std::string_view bytes) override {
    check(crypto_library().update(context_, bytes.data(), bytes.size()) == 1);
  }

  std::string hex() override {
    std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
    unsigned int size = 0;
    check(crypto_library().final(context_, bytes.data(), &size) == 1);
    return to_hex({reinterpret_cast<const char*>(bytes.data()), size});
  }

 private:
  static void check(bool is_done) {
    if (!is_done) throw ConfigError("OpenSSL refuses to compute a checksum; is it in FIPS mode?");
  }

  EVP_MD_CTX* context_ = nullptr;
};

}  // namespace

std::unique_ptr<Digest> make_sha256() {
  if (!why_no_digest().empty()) return nullptr;
  return std::make_unique<CryptoDigest>(crypto_library().sha256());
}

std::unique_ptr<Digest> make_git_sha1(std::uint64_t size_bytes) {
  if (!why_no_digest().empty()) return nullptr;
  auto digest = std::make_unique<CryptoDigest>(crypto_library().sha1());
  const std::string size = std::to_string(size_bytes);
  digest->update("blob " + size + std::string(1, '\0'));
  return digest;
}

std::string why_no_digest() {
  return crypto_library().fault;
}

}  // namespace accelerate::detail
