#include <gtest/gtest.h>

#include "accelerate/base/machine/hardware.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

Processor processor_of(const std::string& cpuinfo) {
  const testing::TemporaryFolder folder;
  folder.write("cpuinfo", cpuinfo);
  return this_processor({.proc = folder.path()});
}

TEST(ProcessorTest, IsTheFirstThatTheKernelLists) {
  const Processor found = processor_of(
      "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 26\nmodel name\t: AMD EPYC\n"
      "flags\t\t: fpu avx2 avx512f avx512dq avx512bw avx512vl\nbugs\t\t: sysret_ss_attrs\n\n"
      "processor\t: 1\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nflags\t\t: fpu\n");
  EXPECT_EQ(found.vendor, "AuthenticAMD");
  EXPECT_EQ(found.family, 26);
  EXPECT_TRUE(found.avx512);
  EXPECT_FALSE(processor_of("flags\t: avx512f avx512dq avx512cd\n").avx512);
}

TEST(ProcessorTest, HasNoVendorWhereTheKernelDoesNotSay) {
  for (const char* cpuinfo : {"", "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\n",
                              "vendor_id\nflags without a colon\ncpu family\t: many\n"}) {
    const Processor found = processor_of(cpuinfo);
    EXPECT_EQ(found.vendor, "");
    EXPECT_EQ(found.family, 0);
    EXPECT_FALSE(found.avx512);
  }
}

TEST(ProcessorTest, IsThisMachines) {
  EXPECT_NO_THROW((void)this_processor());
  EXPECT_EQ(this_processor({.proc = "/nowhere"}).vendor, "");
}

}  // namespace
}  // namespace accelerate
