#include "accelerate/transformers/hub/account.h"

#include <nlohmann/json.hpp>

#include "accelerate/formats/documents/json.h"
#include "accelerate/transformers/hub/token.h"
#include "accelerate/transformers/hub/transfer/hub_client.h"

namespace accelerate {
namespace {

// Returns the text at the end of the path `keys`; "" if there is none.
std::string text_at(const nlohmann::json& object, std::initializer_list<const char*> keys) {
  const nlohmann::json* at = &object;
  for (const char* key : keys) {
    const auto found = at->is_object() ? at->find(key) : at->end();
    if (!at->is_object() || found == at->end()) return "";
    at = &*found;
  }
  return at->is_string() ? detail::safe_text(at->get<std::string>()) : "";
}

HubAccount account_of(const std::string& answer) {
  const nlohmann::json json = detail::parse_json(answer);
  HubAccount account{.name = text_at(json, {"name"}),
                     .organizations = {},
                     .token_name = text_at(json, {"auth", "accessToken", "displayName"}),
                     .token_role = text_at(json, {"auth", "accessToken", "role"})};
  if (account.name.empty())
    throw NetworkError("the answer names no user: is HF_ENDPOINT a hub of Hugging Face?");
  if (const auto orgs = json.find("orgs"); orgs != json.end() && orgs->is_array()) {
    for (const nlohmann::json& organization : *orgs)
      account.organizations.push_back(text_at(organization, {"name"}));
  }
  return account;
}

}  // namespace

HubAccount whoami(const HubOptions& options) {
  detail::HubClient client(options);
  if (!client.has_token()) {
    throw ConfigError(
        "there is no token. Log in by `accelerate hub login`, or set HF_TOKEN; make a token at "
        "https://huggingface.co/settings/tokens");
  }
  return account_of(client.get(client.endpoint() + "/api/whoami-v2", {}));
}

HubAccount login(const std::string& token, const HubOptions& options) {
  if (token.starts_with("api_org"))
    throw ConfigError("this is the token of an organization; a personal one is needed");
  HubOptions asked = options;
  asked.token = token;
  HubAccount account = whoami(asked);
  save_token(token, account.token_name.empty() ? "oauth-" + account.name : account.token_name);
  return account;
}

}  // namespace accelerate
