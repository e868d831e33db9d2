#include "accelerate/comm/c10d_group.h"

#include <chrono>
#include <exception>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "accelerate/base/error.h"
#include "accelerate/base/text.h"
#include "accelerate/comm/diagnosis.h"
#include "accelerate/comm/gloo.h"

namespace accelerate::detail {
namespace {

constexpr const char* kConnecting = "connecting to the other ranks";

// Lets the engine throw if it knows which rank died: the store may have died with that rank. Asks
// for a while, because a process counts as dead a little after its connections are closed.
void ask_engine(const C10dGroup& group) {
  if (!group.look || !group.traits.knows_who_is_there) return;
  for (int looks = 0; looks < 25; ++looks) {
    group.look();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

C10dConnection join_group(const C10dGroup& group,
                          const std::shared_ptr<GroupDiagnosis>& diagnosis) {
  try {
    diagnosis->wait_for_everyone_to_join(group.times.meeting, group.look);
  } catch (const std::exception& error) {
    diagnosis->announce_failure(first_line(error));
    ask_engine(group);
    throw;
  }
  const auto look = [look = group.look, diagnosis] {  // The engine may keep it.
    if (look) look();
    diagnosis->throw_if_a_peer_failed();
  };
  try {
    return group.connect(group, look);
  } catch (const ConfigError& error) {
    diagnosis->announce_failure(error.what());
    throw;
  } catch (const BlockedError& error) {
    diagnosis->announce_failure(error.what());
    throw CommError(kConnecting + (" on " + diagnosis->who()) +
                        " took longer than the timeout of " +
                        format_duration(diagnosis->timeout()) + ". " + error.what(),
                    error.situation());
  } catch (const std::exception& error) {
    diagnosis->announce_failure(first_line(error));
    if (dynamic_cast<const CommError*>(&error) == nullptr) ask_engine(group);
    if (group.times.meeting.is_over()) diagnosis->throw_timeout(kConnecting);
    diagnosis->throw_failure(kConnecting, error);
  }
}

}  // namespace accelerate::detail
