// The keys under which the launchers of a job write into its store.
#pragma once

#include <string>

namespace accelerate::detail {

/// The version of what launchers say to each other.
inline constexpr int kProtocol = 2;

// A launcher has a number: --machine_rank under the static rendezvous, else that of its arrival.

/// What machine 0 says of the job; there before anybody can connect.
inline const std::string kJob = "accelerate/job";
/// How many launchers have come besides the first; the number of the last.
inline const std::string kArrivals = "accelerate/arrivals";
/// The number of the last round; missing before the first.
inline const std::string kRound = "accelerate/round";

/// The sealed card of a launcher.
inline std::string card_key(int number) {
  return "accelerate/machine/" + std::to_string(number);
}
/// Why a launcher may not take part.
inline std::string refusal_key(int number) {
  return "accelerate/refused/" + std::to_string(number);
}
/// There once a launcher's connection has ended before the job has.
inline std::string lost_key(int number) {
  return "accelerate/lost/" + std::to_string(number);
}
/// The sealed record of a round: how many take part.
inline std::string round_key(int round) {
  return kRound + "/" + std::to_string(round);
}
/// The sealed place of a launcher in a round; there before the round's record if it takes part.
inline std::string place_key(int round, int number) {
  return "accelerate/place/" + std::to_string(round) + "/" + std::to_string(number);
}
/// There once a launcher with a place in a round has left the will that ends the round.
inline std::string taken_key(int round, int number) {
  return "accelerate/taken/" + std::to_string(round) + "/" + std::to_string(number);
}
/// Why a round has ended; the first reason stays.
inline std::string end_key(int round) {
  return "accelerate/end/" + std::to_string(round);
}
/// What machine 0 says after a round has ended: kAgain or kOver.
inline std::string next_key(int round) {
  return "accelerate/next/" + std::to_string(round);
}
inline const std::string kAgain = "again", kOver = "over";
/// There once the ranks of the round before have ended on that launcher's machine.
inline std::string ready_key(int round, int number) {
  return "accelerate/ready/" + std::to_string(round) + "/" + std::to_string(number);
}

// Keys of torchrun's launchers. The id of its run, "none", comes first. It exchanges roles and ranks
// through them, and waits there for the end of all.

inline std::string role_key(int number) {
  return "none/torchelastic/role_info/" + std::to_string(number);
}
inline std::string ranks_key(int number) {
  return "none/torchelastic/assigned_ranks/" + std::to_string(number);
}
/// How many launchers' ranks have succeeded in a round; torchrun knows the first round alone.
inline std::string done_key(int round) {
  return "none/torchelastic/agent/terminal_state" +
         (round == 0 ? "" : "/" + std::to_string(round)) + "/num_members";
}
inline std::string all_done_key(int round) {
  return "none/torchelastic/agent/terminal_state" +
         (round == 0 ? "" : "/" + std::to_string(round)) + "/last_member";
}

}  // namespace accelerate::detail
