// Who the token belongs to.
#pragma once

#include <string>
#include <vector>

#include "accelerate/hub/repository.h"

namespace accelerate {

struct HubAccount {
  std::string name;                        ///< The user's, which begins the ids of repositories.
  std::vector<std::string> organizations;  ///< In which the user may have repositories too.
  std::string token_name;                  ///< "" where the hub does not say.
  std::string token_role;                  ///< "read", "write" or "fineGrained"; "" if unknown.
};

/// Asks the hub whose the token is. Throws ConfigError when there is no token, HubError when the
/// hub does not know it, NetworkError without an answer.
[[nodiscard]] HubAccount whoami(const HubOptions& options = {});

/// Asks whose `token` is, then saves it by save_token(). Throws what these two throw; the token
/// that was there stays then.
HubAccount login(const std::string& token, const HubOptions& options = {});

}  // namespace accelerate
