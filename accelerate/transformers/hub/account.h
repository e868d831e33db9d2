// The account that a token belongs to.
#pragma once

#include <string>
#include <vector>

#include "accelerate/transformers/hub/repository.h"

namespace accelerate {

struct HubAccount {
  std::string name;                        ///< The user's name; ids of repositories begin with it.
  std::vector<std::string> organizations;  ///< Where the user may have repositories too.
  std::string token_name;                  ///< "" if the hub does not say.
  std::string token_role;                  ///< "read", "write" or "fineGrained"; "" if unknown.
};

/// Asks the hub for the account of the token. Throws ConfigError when there is no token, HubError
/// when the hub does not know it, NetworkError when there is no answer.
[[nodiscard]] HubAccount whoami(const HubOptions& options = {});

/// Asks for the account of `token`, then saves the token with save_token(). Throws what whoami()
/// and save_token() throw; an earlier token stays in that case.
HubAccount login(const std::string& token, const HubOptions& options = {});

}  // namespace accelerate
