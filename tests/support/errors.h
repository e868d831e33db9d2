// What a call throws, in words.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "accelerate/base/error.h"

namespace accelerate::testing {

/// What the E that `call` throws says, with its reasons; a failure and "" when nothing is thrown.
/// Lets others through.
template <typename E>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const E& error) {
    return describe(error);
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

/// "UsageError: …" of any Error that `call` throws; "nothing was thrown" otherwise.
inline std::string kind_and_message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(error.kind()) + ": " + describe(error);
  }
  return "nothing was thrown";
}

}  // namespace accelerate::testing
