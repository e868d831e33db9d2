#include "accelerate/base/bytes.h"

#include <gtest/gtest.h>

#include "accelerate/base/error.h"

namespace accelerate {
namespace {

TEST(Base64, GoesThereAndBack) {
  EXPECT_EQ(detail::to_base64(""), "");
  EXPECT_EQ(detail::to_base64("f"), "Zg==");
  EXPECT_EQ(detail::to_base64("fo"), "Zm8=");
  EXPECT_EQ(detail::to_base64("foobar"), "Zm9vYmFy");
  std::string all;
  for (int i = 0; i < 257; ++i) all += static_cast<char>(i * 7);
  EXPECT_EQ(detail::from_base64(detail::to_base64(all)), all);
  EXPECT_THROW((void)detail::from_base64("a*"), ConfigError);
}

}  // namespace
}  // namespace accelerate
