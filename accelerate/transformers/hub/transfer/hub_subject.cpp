#include "accelerate/transformers/hub/transfer/hub_subject.h"

namespace accelerate::detail {

HubSubject checked_subject(const std::string& repo_id, const HubOptions& options) {
  check_repo_id(repo_id);
  check_safe("the revision", options.revision);
  return {.id = repo_id, .type = options.type, .revision = options.revision};
}

}  // namespace accelerate::detail
