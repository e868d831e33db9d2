// Tables of pages that tests count.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace accelerate::testing {

/// Expects that `rows` stand in docs/costs.md, below the two lines of the header that follow
/// "<!-- counted by `who` -->". With ACCELERATE_WRITE_PAGES it writes them there first.
inline void expect_counted_rows(const std::string& who, const std::string& rows) {
  const std::string page = std::string(ACCELERATE_SOURCE_DIR) + "/docs/costs.md";
  const auto text_of_page = [&] {
    std::ostringstream text;
    text << std::ifstream(page).rdbuf();
    return text.str();
  };
  const std::string begin = "<!-- counted by " + who + " -->\n";
  std::string text = text_of_page();
  const auto from = text.find(begin);
  ASSERT_NE(from, std::string::npos) << page << " has no " << begin;
  const auto header = text.find('\n', text.find('\n', from + begin.size()) + 1) + 1;
  const auto stop = text.find("<!-- end -->", header);
  ASSERT_NE(stop, std::string::npos);
  if (std::getenv("ACCELERATE_WRITE_PAGES") != nullptr)
    std::ofstream(page) << text.replace(header, stop - header, rows);
  EXPECT_NE(text_of_page().find(rows), std::string::npos) << "what was counted:\n" << rows;
}

}  // namespace accelerate::testing
