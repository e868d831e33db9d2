#include "accelerate/launch/port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "accelerate/base/descriptor.h"
#include "accelerate/base/error.h"

namespace accelerate {
namespace {

TEST(Port, ThatIsFreeCanBeListenedOn) {
  const int port = free_port("127.0.0.1");
  EXPECT_GT(port, 0);
  EXPECT_TRUE(port_is_free("127.0.0.1", port));
}

TEST(Port, ThatSomebodyListensOnIsTaken) {
  const int port = free_port("127.0.0.1");
  const Descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  name.sin_port = htons(static_cast<std::uint16_t>(port));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  ASSERT_EQ(listen(listener.get(), 1), 0);
  EXPECT_FALSE(port_is_free("127.0.0.1", port));
}

TEST(Port, NeedsAnAddressOfThisMachine) {
  EXPECT_THROW((void)free_port("192.0.2.1"), ConfigError);
  EXPECT_THROW((void)free_port("no such host.invalid"), ConfigError);
}

TEST(Port, WorksOnTheOtherProtocolToo) {
  try {
    EXPECT_GT(free_port("::1"), 0);
  } catch (const Error& error) {
    GTEST_SKIP() << "this machine has no IPv6: " << error.what();
  }
}

}  // namespace
}  // namespace accelerate
