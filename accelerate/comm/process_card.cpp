#include "accelerate/comm/diagnosis.h"

#include <unistd.h>

#include <array>
#include <limits>
#include <vector>

#include "accelerate/base/text.h"
#include "accelerate/base/untrusted_text.h"
#include "accelerate/comm/shared_memory/process_handle.h"

namespace accelerate::detail {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

// Processes of the same realm see each other under the same process IDs.
std::string realm() {
  return boot_id() + " " + std::to_string(process_namespace());
}

}  // namespace

std::string own_process_card() {
  return join({std::to_string(getpid()), host_name(), realm()}, "\n");
}

std::string describe_process(const std::string& card) {
  const auto lines = split(card, '\n');
  const auto pid = parse_int(lines[0]);
  if (lines.size() != 3 || !pid || *pid <= 0 || *pid > std::numeric_limits<pid_t>::max()) return "";
  if (lines[2] == realm()) return ProcessHandle({}, static_cast<pid_t>(*pid)).describe();
  return "process " + lines[0] + " on " + untrusted_text(lines[1]);
}

}  // namespace accelerate::detail
