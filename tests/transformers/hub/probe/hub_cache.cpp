// Answers questions about the hub's cache for tests/reference/hub_cache_live.py. Each line of
// standard input is a JSON object with "call", the call's arguments, and optionally "env":
// variables to set, or with null to unset, before. Each line of standard output is {"value": …}, or
// {"error": its type, "message": …}.
//
//   {"call": "hub_cache_folder"}, {"call": "is_offline"}, {"call": "is_repo_id", "name": …}
//   {"call": "resolve_folder", "name": …, "revision": …, "type": …, "cache_dir": …}
//   {"call": "find_file", the same, "filename": …}
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "accelerate/base/error.h"
#include "accelerate/transformers/hub/cache/cache.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;

void set_environment(const Json& variables) {
  for (const auto& [name, value] : variables.items()) {
    if (value.is_null()) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), value.get<std::string>().c_str(), 1);
    }
  }
}

HubOptions options_of(const Json& question) {
  HubOptions options;
  options.revision = question.value("revision", options.revision);
  options.cache_dir = question.value("cache_dir", std::string());
  if (question.value("type", "model") == "dataset") options.type = RepoType::dataset;
  return options;
}

Json value_of(const Json& question) {
  const std::string call = question.at("call");
  const std::string name = question.value("name", "");
  if (call == "hub_cache_folder") return hub_cache_folder().string();
  if (call == "is_offline") return is_offline();
  if (call == "is_repo_id") return is_repo_id(name);
  if (call == "resolve_folder") return resolve_folder(name, options_of(question)).string();
  const auto file = find_file(name, question.at("filename"), options_of(question));
  return file ? Json(file->string()) : Json(nullptr);
}

Json answer(const Json& question) {
  try {
    set_environment(question.value("env", Json::object()));
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
