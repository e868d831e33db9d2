#include "accelerate/checkpoint/rank_phases.h"

#include <nlohmann/json.hpp>

#include <exception>

#include "accelerate/base/error.h"
#include "accelerate/comm/objects.h"

namespace accelerate {
namespace {

// Rethrows this rank's failure as the type its peers throw: a CheckpointError with the text `told`,
// which they were told. UsageError and CommError keep their types.
[[noreturn]] void rethrow(const std::exception_ptr& failure, const std::string& told) {
  try {
    std::rethrow_exception(failure);
  } catch (const CheckpointError&) {
    throw;
  } catch (const CommError&) {
    throw;
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    throw CheckpointError(told, error.situation());
  } catch (...) {
    throw CheckpointError(told);
  }
}

}  // namespace

void to_json(nlohmann::json& json, const PhaseReport& report) {
  json = {{"error", report.error},
          {"files", nlohmann::json::array()},
          {"leader", report.leader},
          {"said", report.said}};
  for (const auto& file : report.files)
    json["files"].push_back({file.name, file.size_bytes, file.checksum});
}

void from_json(const nlohmann::json& json, PhaseReport& report) {
  json.at("error").get_to(report.error);
  json.at("leader").get_to(report.leader);
  json.at("said").get_to(report.said);
  for (const auto& file : json.at("files"))
    report.files.push_back({file.at(0).get<std::string>(), file.at(1).get<std::uint64_t>(),
                            file.at(2).get<std::uint64_t>()});
}

std::vector<PhaseReport> in_phase(Communicator& ranks,
                                  const std::function<void(PhaseReport&)>& phase) {
  PhaseReport mine;
  std::exception_ptr failure;
  try {
    phase(mine);
  } catch (const std::exception& error) {
    failure = std::current_exception();
    mine.error = describe(error);
  } catch (...) {
    failure = std::current_exception();
    mine.error = "an exception that is not a std::exception was thrown";
  }
  std::vector<PhaseReport> reports;
  try {
    reports = gather_object(ranks, mine);
  } catch (const CommError&) {
    if (!failure) throw;  // Else the failure says why the ranks are gone.
  }
  if (failure) rethrow(failure, mine.error);
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (!reports[rank].error.empty())
      throw CheckpointError("rank " + std::to_string(rank) + " failed: " + reports[rank].error);
  }
  return reports;
}

void on_all_ranks(Communicator& ranks, const std::function<void()>& phase) {
  in_phase(ranks, [&](PhaseReport&) { phase(); });
}

}  // namespace accelerate
