// What launchers write down for each other: JSON under a seal that only a holder of the job's token
// can make. What comes out of a store is not trusted: a missing or wrong value reads as 0 or "".
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "accelerate/launch/plan.h"
#include "accelerate/launch/supervisor.h"

namespace accelerate::detail {

/// Seals texts for one job.
class Seal {
 public:
  Seal() = default;
  /// `token`: 32 hexadecimal digits, or "", which seals against accidents alone. `challenge`: of the
  /// job, so that no text of another one serves.
  Seal(const std::string& token, std::string challenge);
  [[nodiscard]] std::string close(const std::string& text) const;
  /// Returns the text; nullopt if it was sealed with another token.
  [[nodiscard]] std::optional<std::string> open(const std::string& sealed) const;

 private:
  std::string key_;
  std::string challenge_;
};

[[nodiscard]] std::string text_in(const nlohmann::json& value, const std::string& key);
[[nodiscard]] int number_in(const nlohmann::json& value, const std::string& key);

/// What a launcher says of its machine.
struct MachineCard {
  int number = 0;
  std::string host;
  std::string machines;  ///< --num_machines, as "2" or "2:4".
  int ranks = 0;         ///< That this machine runs.
  int ranks_of_all = 0;  ///< --num_processes; 0 if it was not given.
  std::string role;
  std::string version;    ///< Of this library; empty for a launcher of torchrun.
  std::string program;    ///< The file name of the program; machines may have it in other folders.
  std::string arguments;  ///< A checksum of its arguments, which may hold secrets.
  Environment settings;
  std::string nonce;  ///< Tells two launchers of one host apart.

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static MachineCard parse(const std::string& text);
  /// "machine 1 (node-b)".
  [[nodiscard]] std::string name() const;
};

/// Says why machine 0 and another one cannot be of one job; "" if nothing speaks against it.
[[nodiscard]] std::string objection(const MachineCard& first, const MachineCard& other);

/// Says what differs between machine 0 and another one and may be meant; "" if nothing does.
[[nodiscard]] std::string doubt(const MachineCard& first, const MachineCard& other);

/// The file name of a command's program: of what python runs where it is python.
[[nodiscard]] std::string program_name(const std::vector<std::string>& command);

/// The place of a launcher in a round.
struct RoundMember {
  int number = 0;  ///< Of the launcher.
  int index = 0;   ///< Of its machine in the round.
  int first_rank = 0;
  int first_role_rank = 0;
  int ranks_of_role = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static RoundMember parse(const std::string& text);
};

/// What all launchers are told of a round, which lasts from one start of all ranks to the next. It
/// does not list the members: each reads its own place alone.
struct Round {
  std::string error;              ///< Why there is none.
  bool is_misconfigured = false;  ///< Whether the error is one of settings.
  std::string token;              ///< Of the ranks, if machine 0 made it.
  int ranks = 0;                  ///< Of all machines.
  int machines = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] static Round parse(const std::string& text);
};

/// Gives the machines their ranks, in the order of their numbers, as torchrun does.
[[nodiscard]] std::vector<RoundMember> places_of(const std::vector<MachineCard>& cards);

[[nodiscard]] std::string text_of(const EndElsewhere& end);
[[nodiscard]] EndElsewhere end_from(const std::string& text);

}  // namespace accelerate::detail
