// What a message says.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace accelerate::testing {

/// `part` is in `text`.
inline void expect_has(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

}  // namespace accelerate::testing
