// Archives that are damaged, hostile or something else: refused with a sentence, never run.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <regex>

#include "tests/formats/torch_archive_support.h"
#include "tests/support/reference.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

using testing::archive_of;
using testing::archive_refusal;
using testing::number;
using testing::pickle;
using testing::tensor_operations;
using testing::text;
using testing::zip_of;
using testing::ZipPart;

struct HostileArchive {
  std::string what, file, pattern;
};

const std::string kNone = pickle("N");

std::vector<HostileArchive> other_archives() {
  return {
      {"empty", "", "it is empty"},
      {"bare pickle", kNone, "bare|pickle outside of an archive.*torch.load"},
      {"tar", std::string(257, 'x') + "ustar\0" + std::string(300, 'x'), "tar archive"},
      {"Git LFS", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
      {"HTML", "<!DOCTYPE html>", "HTML"},
      {"noise", std::string(100, '\xff'), "not a zip archive"},
      {"empty zip", "PK\5\6" + std::string(18, '\0'), "not a zip archive"},
      {"no pickle", zip_of({{"archive/data/0", "1234"}}), "without the entry data.pkl"},
      {"pickle without folder", zip_of({{"data.pkl", kNone}}), "without the entry data.pkl"},
      {"two archives", zip_of({{"a/data.pkl", kNone}, {"b/data.pkl", kNone}}), "two archives"},
      {"big-endian", zip_of({{"a/data.pkl", kNone}, {"a/byteorder", "big"}}), "big-endian"},
  };
}

std::string with_records(const std::vector<ZipPart>& parts, const std::string& before_end,
                         std::uint64_t entries, std::uint64_t more_offset = 0) {
  const auto zip = testing::zip_tables(parts);
  return zip.entries + zip.table + before_end +
         testing::end_record(entries, zip.table.size(), zip.entries.size() + more_offset);
}

std::vector<HostileArchive> zips() {
  const ZipPart good{"a/data.pkl", kNone};
  const auto tables = testing::zip_tables({good});
  const auto zip64 = [&](std::uint64_t entries, std::uint64_t offset) {
    return testing::zip64_records(entries, tables.table.size(), offset);
  };
  const std::uint64_t at = tables.entries.size();
  return {
      {"compressed", zip_of({{"a/data.pkl", kNone, 0, 8}}), "'a/data.pkl' is compressed.*zip -0"},
      {"encrypted", zip_of({{"a/data.pkl", kNone, 1}}), "'a/data.pkl' is encrypted"},
      {"a name twice", zip_of({good, good}), "'a/data.pkl' appears twice"},
      {"another name inside", zip_of({{"a/data.pkl", kNone, 0, 0, "a/data.xyz"}}), "another name"},
      {"an overlap", zip_of({good, {"a/data/0", "12", 0, 0, "", ~0ULL, 0}}),
       "another name|overlaps"},
      {"the same entry by two names",
       zip_of({good, {"a/data.pk2", kNone, 0, 0, "a/data.pkl", ~0ULL, 0}}), "another name"},
      {"an entry within another",
       zip_of({{"a/data/0", testing::local_header({"a/x", ""}) + "12"},
               {"a/x", "12", 0x808, 0, "", ~0ULL, 38}}),
       "'a/x' overlaps"},
      {"beyond the table", zip_of({{"a/data.pkl", kNone, 0, 0, "", 5000}}), "leaves the file"},
      {"header beyond the file", zip_of({{"a/data.pkl", kNone, 0, 0, "", ~0ULL, 5000}}),
       "points beyond the end"},
      {"something in front",
       "PK\3\4junk" + with_records({{"a/data.pkl", kNone, 0, 0, "", ~0ULL, 8}}, "", 1, 8),
       "something else precedes"},
      {"methods that differ",
       [&] {
         std::string bytes = zip_of({good});
         bytes[8] = 8;
         return bytes;
       }(),
       "the methods of 'a/data.pkl' differ"},
      {"entries missing", with_records({good}, "", 2), "ends too early"},
      {"entries left over", with_records({good, {"a/x", ""}}, "", 1), "longer than its entries"},
      {"table elsewhere", with_records({good}, "junk", 1), "not where it should be"},
      {"a tail", zip_of({good}) + "x", "table of contents is missing"},
      {"parts of several",
       [&] {
         std::string bytes = zip_of({good});
         bytes[bytes.size() - 18] = 1;
         return bytes;
       }(),
       "one part of several"},
      {"zip64 contradicts", with_records({good}, zip64(7, at), 1), "contradict"},
      {"zip64 elsewhere", with_records({good}, "junk" + zip64(1, at), 1), "zip64 record is not"},
      {"zip64 too many", with_records({good}, zip64(2'000'000, at), 0xFFFF), "at most 1000000"},
      {"zip64 offset wraps", with_records({good}, zip64(1, ~0ULL - 3), 1), "contradict|not where"},
  };
}

std::vector<HostileArchive> pickles() {
  const auto of = [](const std::string& operations) { return archive_of(pickle(operations)); };
  return {
      {"runs a program", of("cos\nsystem\n(" + text("true") + "tR"), "asks for 'os.system'"},
      {"runs Python", of("cbuiltins\neval\n(" + text("1") + "tR"), "asks for 'builtins.eval'"},
      {"by STACK_GLOBAL", of(text("posix") + text("system") + "\x93"), "asks for 'posix.system'"},
      {"terminal escapes", of("ca\x1b[2J\nb\n"), "asks for 'a\\?\\[2J.b'"},
      {"INST", of("(ios\nsystem\n"), "operation 0x69 at its byte 3"},
      {"NEWOBJ", of("ctorch\nSize\n)\x81"), "makes an object of 'torch.Size'"},
      {"TorchScript outside of its archive", of("c__torch__\nNet\n)\x81}b"),
       "asks for '__torch__.Net'"},
      {"EXT1", of("\x82\x01"), "operation 0x82"},
      {"PERSID", of("Pabc\n"), "operation 0x50"},
      {"text integer", of("I1\n"), "operation 0x49"},
      {"protocol 0", archive_of("N."), ""},
      {"protocol 9", archive_of("\x80\x09N."), "protocol 9"},
      {"no end", archive_of("\x80\x02N"), "ends in the middle"},
      {"nothing", archive_of(""), "ends in the middle"},
      {"only an end", of(""), "value that was never given"},
      {"left over", of("NN"), "values left over"},
      {"a mark left over", of("(N"), "left over"},
      {"bytes after the end", archive_of(kNone + "N"), "followed by other bytes"},
      {"pop of nothing", of("0"), "never given"},
      {"end of no group", of("t"), "never begun"},
      {"takes beyond a mark", of("N(\x85"), "never given"},
      {"append to a number", of("K\1K\2a"), "where a list should be"},
      {"add to a list", of("](K\1\x90"), "where a set should be"},
      {"entries into a list", of("](K\1K\2u"), "something that is not a dict"},
      {"key without value", of("}(K\1u"), "key without a value"},
      {"call of a number", of("K\1)R"), "where a name to call should be"},
      {"call without a tuple", of("ctorch\nSize\nK\1R"), "where arguments should be"},
      {"build of a number", of("K\1}b"), "where an object to fill should be"},
      {"build twice", of("ccollections\nOrderedDict\n)R}b}b"), "fills an object twice"},
      {"recalls nothing", of("h\5"), "recalls a value"},
      {"text too long", of("X" + number(0xFFFFFFFF, 4)), "ends in the middle"},
      {"text of 2^63", of("\x8d" + number(~0ULL >> 1, 8)), "ends in the middle"},
      {"frame too long", of("\x95" + number(1000, 8)), "ends in the middle"},
      {"no UTF-8", of(text("\xff")), "not UTF-8"},
      {"a global alone", of("ctorch\nFloatStorage\n"), "'torch.FloatStorage' by itself"},
      {"a class alone", of("ccollections\nOrderedDict\n"), "by itself"},
      {"calls a type", of("ctorch\nfloat32\n)R"), "calls 'torch.float32'"},
      {"a list that holds itself", of("]q\1h\1a"), "holds itself"},
      {"a dict that holds itself", of("}q\1K\1h\1s"), "holds itself"},
      {"deep lists", of(std::string(100, ']') + std::string(99, 'a')), "deeper than the 64"},
      {"a set of a number", of("c__builtin__\nset\n(K\1tR"), "something that is not a list"},
      {"bytes beyond latin1", of("c_codecs\nencode\n(" + text("漢") + text("latin1") + "tR"),
       "beyond latin1"},
      {"bytes of another codec", of("c_codecs\nencode\n(" + text("a") + text("utf-7") + "tR"),
       "a codec other than latin1"},
      {"too many arguments", of("ctorch\nSize\n(NNtR"), "with 2 arguments"},
      {"entries into a size", of("ctorch\nSize\n()tRK\1K\2s"), "changes the result"},
      {"a parameter of nothing", of("ctorch._utils\n_rebuild_parameter\n(N\x89NtR"),
       "something that is not a tensor"},
  };
}

// Archives of TorchScript: `operations` make the module.
std::vector<HostileArchive> scripts() {
  const auto of = [](const std::string& operations) {
    return zip_of({{"a/data.pkl", pickle(operations)}, {"a/constants.pkl", kNone}});
  };
  const std::string object = "c__torch__.deep.er\nNet\n)\x81";
  return {
      {"a module", of(object + "}" + text("x") + "K\1sb"), ""},
      {"code that is compressed",
       zip_of({{"a/data.pkl", pickle(object + "}b")},
               {"a/constants.pkl", kNone},
               {"a/code/__torch__.py", "not even deflated", 0, 8}}),
       ""},
      {"data that is compressed",
       zip_of({{"a/data.pkl", pickle(object + "}b"), 0, 8}, {"a/constants.pkl", kNone}}),
       "'a/data.pkl' is compressed"},
      {"a class with arguments", of("c__torch__\nNet\nK\1\x85\x81}b"), "makes an object of"},
      {"a class called", of("c__torch__\nNet\n)R"), "calls '__torch__', which is not data"},
      {"a class alone", of("c__torch__\nNet\n"), "'__torch__' by itself"},
      {"an object of Python", of("cbuiltins\nobject\n)\x81}b"), "asks for 'builtins.object'"},
      {"a class that is none of TorchScript", of("c__torch__x\nNet\n)\x81}b"),
       "asks for '__torch__x.Net'"},
      {"a number as a class", of("K\1)\x81"), "where the name of a class should be"},
      {"no arguments", of("c__torch__\nNet\nK\1\x81"), "where arguments should be"},
      {"no state", of(object), "whose state is not a dict"},
      {"packed by its code", of(object + "K\1\x85" + "b"), "quantized"},
      {"filled twice", of(object + "}b}b"), "fills an object twice"},
      {"entries into it", of(object + "K\1K\2s"), "something that is not a dict"},
      {"an attribute that is no name", of(object + "}K\1K\2sb"), "attribute called the number 1"},
      {"a module that holds itself", of(object + "q\1}" + text("x") + "h\1sb"), "holds itself"},
      {"a typed list of another call", of("ctorch.jit._pickle\nbuild_enum\n(]tR"),
       "asks for 'torch.jit._pickle.build_enum'"},
      {"a typed list without a list", of("ctorch.jit._pickle\nbuild_intlist\n)R"),
       "with 0 arguments"},
      {"a typed list outside of TorchScript",
       archive_of(pickle("ctorch.jit._pickle\nbuild_intlist\n(]tR")),
       "asks for 'torch.jit._pickle.build_intlist'"},
  };
}

std::vector<HostileArchive> tensors() {
  const std::string data(24, '\1');
  const auto of = [&](const std::string& offset, const std::string& shape,
                      const std::string& stride, const std::string& elements = "K\6") {
    return archive_of(pickle(tensor_operations(offset, shape, stride, elements)), {data});
  };
  const std::string zero("K\0", 2), huge = "\x8a\x08" + number(1ULL << 62, 8);
  return {
      {"good", of(zero, "K\2K\3\x86", "K\3K\1\x86"), ""},
      {"leaves its storage", of("K\1", "K\2K\3\x86", "K\3K\1\x86"), "leaves its storage '0' of 6"},
      {"offset beyond", of("K\7", zero + "\x85", "K\1\x85"), "leaves its storage"},
      {"offset negative", of("J\xff\xff\xff\xff", "K\1\x85", "K\1\x85"),
       "offset is not a non-negative number"},
      {"negative shape", of(zero, "J\xff\xff\xff\xff\x85", "K\1\x85"), "shape holds something"},
      {"negative stride", of(zero, "K\2\x85", "J\xff\xff\xff\xff\x85"), "stride holds something"},
      {"shape of text", of(zero, text("a") + "\x85", "K\1\x85"), "shape holds something"},
      {"shape a list", of(zero, "]", "K\1\x85"), "shape is not a tuple"},
      {"unequal ranks", of(zero, "K\1\x85", "K\1K\1\x86"), "unequal shape and stride"},
      {"extent overflows", of(zero, huge + "\x85", huge + "\x85"), "leaves its storage"},
      {"size overflows", of(zero, huge + huge + "\x86", zero + zero + "\x86"),
       "leaves its storage"},
      {"storage too short", of(zero, "K\1\x85", "K\1\x85", "K\7"),
       "24 bytes, its 7 elements take 28"},
      {"storage too long", of(zero, "K\1\x85", "K\1\x85", "K\5"), "its 5 elements take 20"},
      {"storage of 2^62", of(zero, "K\1\x85", "K\1\x85", huge), "more than 64 bits"},
      {"storage negative", of(zero, "K\1\x85", "K\1\x85", "J\xff\xff\xff\xff"), "another kind"},
      {"storage missing", archive_of(pickle(tensor_operations(zero, "K\1\x85", "K\1\x85", "K\6"))),
       "'0' is missing"},
      {"storage of another thing", archive_of(pickle("K\1Q")), "storage outside of a tensor"},
      {"a tensor of no storage",
       archive_of(pickle("ctorch._utils\n_rebuild_tensor_v2\n(NK\1))NNtR")), "another kind"},
  };
}

TEST(TorchArchiveHostile, EveryBrokenRuleIsASentenceWithTheFileAndTheCause) {
  int rows = 0;
  for (const auto& table : {other_archives(), zips(), pickles(), scripts(), tensors()}) {
    for (const HostileArchive& row : table) {
      const std::string message = archive_refusal(row.file);
      ++rows;
      if (row.pattern.empty()) {
        EXPECT_EQ(message, "") << row.what;
        continue;
      }
      EXPECT_TRUE(message.starts_with("cannot load 'hostile.pt', a file of torch.save: "))
          << row.what << ": " << message;
      EXPECT_TRUE(std::regex_search(message, std::regex(row.pattern)))
          << row.what << ": " << message;
      EXPECT_LT(message.size(), 500) << row.what;
    }
  }
  EXPECT_EQ(rows, 114);
}

// Ten lists, each of ten times the one before: 10^10 values from 200 bytes.
TEST(TorchArchiveHostile, ValuesThatMultiplyAreStoppedBeforeTheyFillTheMemory) {
  std::string operations = "]q" + std::string(1, '\0');
  for (char level = 1; level <= 10; ++level) {
    operations += "](";
    for (int i = 0; i < 10; ++i) operations += std::string("h") + static_cast<char>(level - 1);
    operations += std::string("eq") + level;
  }
  // What was on the stack goes, the last list comes back from the memo.
  operations = "(" + operations + "1h\x0a";
  EXPECT_NE(
      archive_refusal(archive_of(pickle(operations))).find("bytes of memory that are allowed"),
      std::string::npos);
  const std::string nones(4'100'000, 'N');
  EXPECT_NE(archive_refusal(archive_of(pickle("]((" + nones + "10e"))).find("4000000 values"),
            std::string::npos);
}

TEST(TorchArchiveHostile, AZip64ArchiveIsRead) {
  const std::vector<ZipPart> parts = {{"a/data.pkl", pickle("K\7")}};
  const auto zip = testing::zip_tables(parts);
  const std::string file =
      zip.entries + zip.table + testing::zip64_records(1, zip.table.size(), zip.entries.size()) +
      "PK\5\6" + number(0, 4) + number(0xFFFFFFFF, 4) + number(~0ULL, 8) + number(0, 2);
  const TorchArchive archive = testing::open_archive(file);
  EXPECT_EQ(*archive.value().as<std::int64_t>(), 7);
}

// An entry whose size and offset are in the zip64 field, behind a field of another kind.
ZipPart wide_entry(std::uint64_t size, std::uint64_t offset) {
  ZipPart part{"a/data.pkl", pickle("K\7"), 0, 0, "", 0xFFFFFFFF, 0xFFFFFFFF};
  part.extra = number(0x5455, 2) + number(1, 2) + "x" + number(1, 2) + number(24, 2) +
               number(size, 8) + number(size, 8) + number(offset, 8);
  return part;
}

TEST(TorchArchiveHostile, SizesAndOffsetsOfZip64AreReadAndChecked) {
  const TorchArchive archive = testing::open_archive(zip_of({wide_entry(5, 0)}));
  EXPECT_EQ(*archive.value().as<std::int64_t>(), 7);
  const std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_NE(archive_refusal(zip_of({wide_entry(huge - 100, 0)})).find("leaves the file"),
            std::string::npos);
  EXPECT_NE(archive_refusal(zip_of({wide_entry(5, huge - 10)})).find("beyond the end"),
            std::string::npos);
  ZipPart missing = wide_entry(5, 0);
  missing.extra = "";
  EXPECT_NE(archive_refusal(zip_of({missing})).find("zip64 sizes of 'a/data.pkl' are missing"),
            std::string::npos);
  missing.extra = number(1, 2) + number(8, 2) + number(5, 8);
  EXPECT_NE(archive_refusal(zip_of({missing})).find("ends too early"), std::string::npos);
}

std::string small_archive() {
  return archive_of(
      pickle("}(" + text("w") +
             tensor_operations(std::string("K\0", 2), "K\2K\3\x86", "K\3K\1\x86", "K\6") +
             text("n") + "K\5u"),
      {std::string(24, '\1')});
}

TEST(TorchArchiveHostile, EveryTruncationAndEveryExtensionIsRefused) {
  for (const std::string& whole :
       {small_archive(), testing::read_reference("torch_archive/module_state.pt"),
        testing::read_reference("torch_archive/script.pt")}) {
    ASSERT_EQ(archive_refusal(whole), "");
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_NE(archive_refusal(std::string_view(whole).substr(0, size)), "") << "cut to " << size;
    }
    EXPECT_NE(archive_refusal(whole + '\0'), "");
  }
}

void touch(const TorchValue& value, std::size_t& sum) {
  if (const auto* tensor = value.as<TorchTensor>()) {
    for (const std::byte byte : tensor->bytes) sum += std::to_integer<std::size_t>(byte);
    const auto size = bytes_of(tensor->dtype, tensor->shape);
    ASSERT_TRUE(size);
    if (*size > 1 << 20) return;  // A stride of 0 makes much of little.
    std::vector<std::byte> copy(*size);
    tensor->copy_to(copy);
  }
  if (const auto* dict = value.as<TorchDict>()) {
    for (const auto& [key, item] : dict->entries) touch(key, sum), touch(item, sum);
  }
  if (const auto* object = value.as<TorchObject>()) {
    for (const auto& attribute : object->attributes) touch(attribute.value, sum);
  }
  for (const TorchValue& item : value.items()) touch(item, sum);
}

std::string small_script() {
  return zip_of(
      {{"a/data.pkl",
        pickle("c__torch__\nNet\n)\x81}" + text("w") +
               tensor_operations(std::string("K\0", 2), "K\2K\3\x86", "K\3K\1\x86", "K\6") + "sb")},
       {"a/constants.pkl", kNone},
       {"a/data/0", std::string(24, '\1')}});
}

class TorchArchiveMutations : public ::testing::TestWithParam<std::string (*)()> {};

TEST_P(TorchArchiveMutations, AreRefusedOrReadWithinTheFile) {
  const std::string whole = GetParam()();
  ASSERT_EQ(archive_refusal(whole), "");
  std::mt19937_64 random(20260131);
  int taken = 0;
  std::size_t sum = 0;
  for (int i = 0; i < 40'000; ++i) {
    std::string bytes = whole;
    for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      bytes[random() % bytes.size()] =
          static_cast<char>(random() % 4 == 0 ? random() : random() % 8);
    }
    try {
      const TorchArchive archive = testing::open_archive(bytes);
      touch(archive.value(), sum);
      ++taken;
    } catch (const CheckpointError&) {
    }
  }
  EXPECT_GT(taken, 400) << "mutations should sometimes leave a valid file";
  EXPECT_LT(taken, 30'000);
}

INSTANTIATE_TEST_SUITE_P(TorchArchiveHostile, TorchArchiveMutations,
                         ::testing::Values(small_archive, small_script));

TEST(TorchArchiveHostile, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  const testing::TemporaryFolder folder;
  const auto fifo = folder.path() / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::filesystem::path& path : {fifo, folder.path(), folder.path() / "none"}) {
    EXPECT_THROW((void)TorchArchive::open(path), CheckpointError) << path;
  }
}

}  // namespace
}  // namespace accelerate
