// Scans caches and removes from them for tests/transformers/hub/cache_scan_live.py. Each line of standard input
// is a JSON object with "call", "cache" and, but for "scan", "what". Each line of standard output
// is
// {"value": …}, or {"error": its type, "message": …}.
//
//   {"call": "scan", "cache": …}, {"call": "plan", …}, {"call": "remove", …}: plans, then removes
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/hub/cache/cache_removal.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using Time = std::chrono::system_clock::time_point;

double seconds_of(Time time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

Json json_of(const std::vector<CachedBlob>& blobs) {
  Json sizes = Json::object();
  for (const auto& blob : blobs) sizes[blob.path.string()] = blob.size_bytes;
  return sizes;
}

Json json_of(const CachedRevision& revision) {
  return {{"commit", revision.commit},
          {"refs", revision.refs},
          {"snapshot", revision.snapshot.string()},
          {"files", revision.files},
          {"size", revision.size_bytes},
          {"modified", seconds_of(revision.last_modified)},
          {"blobs", json_of(revision.blobs)}};
}

Json json_of(const CachedRepo& repo) {
  Json revisions = Json::array();
  for (const auto& revision : repo.revisions) revisions.push_back(json_of(revision));
  return {{"id", repo.cache_id()},
          {"path", repo.path.string()},
          {"files", repo.files},
          {"size", repo.size_bytes},
          {"accessed", seconds_of(repo.last_accessed)},
          {"modified", seconds_of(repo.last_modified)},
          {"revisions", revisions}};
}

Json json_of(const CacheScan& scan) {
  Json repos = Json::array();
  for (const auto& repo : scan.repos) repos.push_back(json_of(repo));
  return {{"size", scan.size_bytes},
          {"repos", repos},
          {"faults", scan.faults},
          {"incomplete", json_of(scan.incomplete)}};
}

Json json_of(const std::vector<std::filesystem::path>& paths) {
  Json texts = Json::array();
  for (const auto& path : paths) texts.push_back(path.string());
  return texts;
}

Json json_of(const CacheRemoval& removal) {
  return {{"refs", json_of(removal.refs)},   {"snapshots", json_of(removal.snapshots)},
          {"blobs", json_of(removal.blobs)}, {"repos", json_of(removal.repos)},
          {"freed", removal.freed_bytes},    {"faults", removal.faults}};
}

Json value_of(const Json& question) {
  const CacheScan scan = scan_cache(question.at("cache").get<std::string>());
  if (question.at("call") == "scan") return json_of(scan);
  const CacheRemoval removal =
      plan_removal(scan, question.at("what").get<std::vector<std::string>>());
  if (question.at("call") == "remove") remove(removal);
  return json_of(removal);
}

Json answer(const Json& question) {
  try {
    return {{"value", value_of(question)}};
  } catch (const Error& error) {
    return {{"error", error.kind()}, {"message", error.what()}};
  }
}

}  // namespace
}  // namespace accelerate

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << accelerate::answer(nlohmann::json::parse(line)).dump() << std::endl;
  }
}
