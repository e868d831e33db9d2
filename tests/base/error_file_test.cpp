// What a program leaves for the launcher that started it.
#include "accelerate/base/error_file.h"

#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "accelerate/base/error.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

std::string text_without_time(const std::exception& error) {
  std::string text = detail::error_file_text(error);
  return text.substr(0, text.find("\"timestamp\""));
}

// Byte for byte what Python's json.dump writes of the same texts.
TEST(ErrorFile, HasTheFormatOfTorch) {
  EXPECT_EQ(
      text_without_time(DataError("row \"7\" is\\n't a \u00e4 \U0001f600\nat all")),
      R"({"message": {"message": "DataError: row \"7\" is\\n't a \u00e4 \ud83d\ude00\nat all", )"
      R"("extraInfo": {"py_callstack": "DataError: row \"7\" is\\n't a \u00e4 \ud83d\ude00\nat all", )");
  const auto json = nlohmann::json::parse(detail::error_file_text(DataError("x")));
  const auto time = std::stoll(json["message"]["extraInfo"]["timestamp"].get<std::string>());
  EXPECT_NEAR(static_cast<double>(time), static_cast<double>(std::time(nullptr)), 60);
}

TEST(ErrorFile, HasTheCausesWherePythonHasItsCallStack) {
  try {
    try {
      throw std::out_of_range("line 3");
    } catch (const std::out_of_range&) {
      std::throw_with_nested(std::runtime_error("cannot load"));
    }
  } catch (const std::exception& error) {
    const auto json = nlohmann::json::parse(detail::error_file_text(error));
    EXPECT_EQ(json["message"]["message"], "std::runtime_error: cannot load");
    EXPECT_EQ(json["message"]["extraInfo"]["py_callstack"],
              "std::runtime_error: cannot load\n  because: line 3");
  }
}

TEST(ErrorFile, IsBoundedAndValidWhateverTheMessageHolds) {
  const std::runtime_error long_one(std::string(1'000'000, 'x') + "\xff\x1b");
  EXPECT_LT(detail::error_file_text(long_one).size(), 200'000U);
  const std::runtime_error hostile("\xff\x1b[31m\xc3");
  EXPECT_EQ(nlohmann::json::parse(detail::error_file_text(hostile))["message"]["message"],
            "std::runtime_error: ??[31m?");
}

TEST(ErrorFile, IsWrittenOnlyWhereALauncherSaysSo) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.path() / "error.json";
  for (const char* name : {"", static_cast<const char*>(nullptr), "/absent/error.json"}) {
    const testing::ScopedEnv variable("TORCHELASTIC_ERROR_FILE", name);
    detail::write_error_file(DataError("x"));
  }
  EXPECT_FALSE(std::filesystem::exists(file));
  const testing::ScopedEnv variable("TORCHELASTIC_ERROR_FILE", file.c_str());
  detail::write_error_file(DataError("x"));
  EXPECT_GT(std::filesystem::file_size(file), 50U);
}

}  // namespace
}  // namespace accelerate
