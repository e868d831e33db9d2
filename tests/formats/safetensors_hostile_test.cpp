// Files that are damaged, hostile or something else: refused with a sentence, never a crash.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <random>
#include <regex>

#include "tests/formats/safetensors_support.h"
#include "tests/support/support.h"

namespace accelerate {
namespace {

// "k0":"","k1":"", …
std::string many_keys(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":\"\"";
  }
  return text;
}

using testing::little_endian;
using testing::refusal_of;
using testing::safetensors_text;

struct HostileFile {
  std::string what;
  std::string text;
  std::string pattern;  // Of the message.
};

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

// A file of one tensor "w" with this entry.
std::string one(const std::string& body, std::size_t data_bytes = 8) {
  return safetensors_text(R"({"w":)" + body + "}", data_bytes);
}

std::string shaped(const std::string& shape) {
  return one(entry("F32", shape, "[0,8]"));
}
std::string placed(const std::string& offsets) {
  return one(entry("F32", "[2]", offsets));
}

std::vector<HostileFile> other_files() {
  return {
      {"empty", "", "it is empty"},
      {"three bytes", "abc", "has 3 bytes, fewer than the 8"},
      {"Git LFS", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"},
      {"HTML", "<!DOCTYPE html><html>404</html>", "HTML page"},
      {"torch.save", std::string("PK\x03\x04") + std::string(60, 'x'), "torch.save.*convert"},
      {"pickle", std::string("\x80\x02}q\x00.", 6) + std::string(60, 'x'),
       "pickle, which is never read"},
      {"JSON index", R"({"weight_map": {"a": "b.safetensors"}})", "index of a model"},
      {"gzip", "\x1f\x8b\x08 and so on and on", "gzip"},
      {"noise", std::string(64, '\xff'), "header of 18446744073709551615 bytes.*100000000"},
  };
}

std::vector<HostileFile> lengths() {
  const std::string two = R"({"a":)" + entry("F32", "[2]", "[0,8]");
  return {
      {"header one byte too long for us", little_endian(100'000'001) + "{}",
       "header of 100000001 bytes"},
      {"header cut", safetensors_text("{}  ").substr(0, 10),
       "has 10 bytes, its header promises 12"},
      {"data cut", one(entry("F32", "[2]", "[0,8]"), 7),
       "promises 8 bytes.*the file has 7.*cut short"},
      {"data missing", one(entry("F32", "[2]", "[0,8]"), 0), "promises 8 bytes.*the file has 0"},
      {"a tail", one(entry("F32", "[2]", "[0,8]"), 9), "1 bytes follow the last tensor"},
      {"a hole", safetensors_text(two + R"(,"b":)" + entry("U8", "[1]", "[9,10]") + "}", 10),
       "tensor 'b'.*\\[9, 10\\] leave a hole after.*ends at 8"},
      {"a hole in front", one(entry("F32", "[2]", "[1,9]"), 9),
       "tensor 'w'.*leave a hole.*ends at 0"},
      {"an overlap", safetensors_text(two + R"(,"b":)" + entry("U8", "[1]", "[7,8]") + "}", 8),
       "tensor 'b'.*overlap.*ends at 8"},
      {"the same bytes twice",
       safetensors_text(two + R"(,"b":)" + entry("F32", "[2]", "[0,8]") + "}", 8),
       "tensor 'b'.*overlap"},
  };
}

std::vector<HostileFile> headers() {
  const std::string body = entry("F32", "[2]", "[0,8]");
  return {
      {"leading space", safetensors_text(" {}"), "must begin with '\\{'"},
      {"an array", safetensors_text("[]"), "must begin with '\\{'"},
      {"no header", safetensors_text(""), "must begin with '\\{'"},
      {"trailing line end", safetensors_text("{}\n"), "must end with '\\}'"},
      {"trailing zero", safetensors_text(std::string("{}\0", 3)), "must end with '\\}'"},
      {"two objects", safetensors_text("{}{}"), "not valid JSON at its byte 3"},
      {"comments", safetensors_text("{/**/}"), "not valid JSON"},
      {"bad UTF-8", safetensors_text("{\"\xff\":1}"), "not valid JSON"},
      {"overlong UTF-8", safetensors_text("{\"\xc0\xaf\":1}"), "not valid JSON"},
      {"a name twice", safetensors_text(R"({"w":)" + body + R"(,"w":)" + body + "}", 8),
       "'w' appears twice"},
      {"a name twice, once escaped",
       safetensors_text(R"({"w":)" + body + R"(,"\u0077":)" + body + "}", 8), "'w' appears twice"},
      {"long name", safetensors_text(R"({")" + std::string(5000, 'n') + R"(":)" + body + "}", 8),
       "name has 5000 bytes, at most 4096"},
      {"metadata twice", safetensors_text(R"({"__metadata__":{},"__metadata__":{}})"),
       "appears twice"},
      {"metadata key twice", safetensors_text(R"({"__metadata__":{"k":"1","k":"2"}})"),
       "'k' appears twice"},
      {"too much metadata", safetensors_text(R"({"__metadata__":{)" + many_keys(100'001) + "}}"),
       "more than the 100000 keys"},
      {"metadata number", safetensors_text(R"({"__metadata__":{"k":1}})"),
       "metadata 'k' must be a string, found '1'"},
      {"metadata nested", safetensors_text(R"({"__metadata__":{"k":{}}})"),
       "must be a string, found 'an object'"},
      {"metadata array", safetensors_text(R"({"__metadata__":[]})"),
       "must be a JSON object, found 'an array'"},
      {"metadata null", safetensors_text(R"({"__metadata__":null})"),
       "must be a JSON object, found 'null'"},
      {"deep objects", safetensors_text([] {
         std::string s;
         for (int i = 0; i < 100'000; ++i) s += R"({"a":)";
         return s + "}";
       }()),
       "must be an array|found 'an object'|unknown key"},
      {"terminal escapes", safetensors_text(R"({"\u001b[2J":1})"),
       "'\\?\\[2J' must be a JSON object"},
  };
}

std::vector<HostileFile> entries() {
  return {
      {"no object", one("1"), "entry of 'w' must be a JSON object, found '1'"},
      {"no keys", one("{}"), "tensor 'w': the key dtype is missing"},
      {"no shape", one(R"({"dtype":"F32","data_offsets":[0,8]})"), "the key shape is missing"},
      {"no offsets", one(R"({"dtype":"F32","shape":[2]})"), "the key data_offsets is missing"},
      {"unknown key", one(R"({"dtype":"F32","shapes":[2],"data_offsets":[0,8]})"),
       "'shapes'.*Did you mean 'shape'"},
      {"key twice", one(R"({"dtype":"F32","dtype":"F64","shape":[2],"data_offsets":[0,8]})"),
       "key dtype appears twice"},
      {"unknown dtype", one(entry("F33", "[2]", "[0,8]")), "dtype is 'F33'.*BOOL.*BF16.*U64"},
      {"dtype number", one(R"({"dtype":32})"), "dtype must be a string, found '32'"},
      {"shape object", shaped("{}"), "shape must be an array, found 'an object'"},
      {"shape string", shaped("\"2\""), "shape must be an array, found 'the string 2'"},
      {"shape nested", shaped("[[2]]"), "found 'an array'"},
      {"shape negative", shaped("[-2]"), "dimension in shape must be a whole number.*found '-2'"},
      {"shape minus zero", shaped("[-0]"), "dimension in shape must be a whole number"},
      {"shape fraction", shaped("[2.0]"), "found '2.0'"},
      {"shape exponent", shaped("[2e0]"), "found '2e0'"},
      {"shape too big", shaped("[18446744073709551616]"), "found '18446744073709551616'"},
      {"shape beyond int64", shaped("[9223372036854775808]"), "found '9223372036854775808'"},
      {"shape null", shaped("[null]"), "found 'null'"},
      {"shape true", shaped("[true]"), "found 'true'"},
      {"shape overflows", shaped("[4294967296,4294967296]"), "overflows 64 bits"},
      {"shape overflows before a zero", shaped("[4611686018427387904,4,0]"), "overflows 64 bits"},
      {"shape times bits overflows", shaped("[4611686018427387904]"), "overflows 64 bits"},
      {"shape of rank 33",
       shaped("[" +
              [] {
                std::string s = "1";
                for (int i = 1; i < 33; ++i) s += ",1";
                return s;
              }() +
              "]"),
       "more than the 32 dimensions"},
      {"half a byte", one(entry("F4", "[1]", "[0,1]"), 1), "no whole number of bytes"},
      {"wrong size", shaped("[3]"), "F32 of shape \\[3\\] takes 12 bytes.*\\[0, 8\\] give 8"},
      {"offsets backwards", placed("[8,0]"), "\\[8, 0\\] end before they begin"},
      {"offsets that wrap", placed("[18446744073709551608,0]"), "end before they begin"},
      {"offsets beyond the file",
       one(entry("U8", "[1152921504606846976]", "[0,1152921504606846976]")),
       "promises 1152921504606846976 bytes"},
      {"one offset", placed("[0]"), "two numbers begin and end, found 1"},
      {"no offset", placed("[]"), "two numbers begin and end, found 0"},
      {"three offsets", placed("[0,8,8]"), "more than the two numbers"},
      {"offset negative", placed("[-1,8]"),
       "offset in data_offsets must be a whole number.*found '-1'"},
      {"offset fraction", placed("[0,8.5]"), "found '8.5'"},
      {"offset string", placed("[\"0\",8]"), "found 'the string 0'"},
      {"offsets object", placed("{}"), "data_offsets must be an array"},
  };
}

TEST(SafetensorsHostile, EveryBrokenRuleIsASentenceWithTheFileAndTheCause) {
  std::vector<HostileFile> rows;
  for (const auto& table : {other_files(), lengths(), headers(), entries()}) {
    rows.insert(rows.end(), table.begin(), table.end());
  }
  for (const HostileFile& row : rows) {
    const std::string message = refusal_of(row.text);
    EXPECT_TRUE(message.starts_with("cannot load tensors from 'hostile.safetensors': "))
        << row.what << ": " << message;
    EXPECT_TRUE(std::regex_search(message, std::regex(row.pattern))) << row.what << ": " << message;
    EXPECT_LT(message.size(), 700) << row.what << ": " << message;
  }
  EXPECT_EQ(rows.size(), 74);
}

TEST(SafetensorsHostile, TooManyTensorsAreRefusedBeforeTheyFillTheMemory) {
  std::string header = "{";
  for (int i = 0; i <= 1'000'000; ++i) {
    if (i > 0) header += ',';
    header += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_TRUE(std::regex_search(refusal_of(safetensors_text(header + "}")),
                                std::regex("more than the 1000000 tensors")));
}

// A small file with metadata, a scalar, an empty tensor and an escape in a name.
std::string valid_file() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a\"b":)" + entry("F64", "[]", "[0,8]") + R"(,"w":)" +
      entry("BF16", "[2,3]", "[8,20]") + R"(,"e":)" + entry("F32", "[0,4]", "[20,20]") + "}    ";
  return safetensors_text(header, 20);
}

TEST(SafetensorsHostile, EveryTruncationAndEveryExtensionIsRefused) {
  const std::string whole = valid_file();
  ASSERT_EQ(refusal_of(whole), "");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(refusal_of(whole.substr(0, size)), "") << "cut to " << size;
  }
  EXPECT_NE(refusal_of(whole + '\0'), "");
  EXPECT_NE(refusal_of(whole + whole), "");
}

std::string mutated(std::string text, std::mt19937_64& random) {
  static const std::vector<std::string> words = {"{",       "}",
                                                 "[",       "]",
                                                 ",",       ":",
                                                 "\"",      "0",
                                                 "-1",      "18446744073709551615",
                                                 "1e9",     "null",
                                                 "\\u0000", " ",
                                                 "F4",      "\"__metadata__\"",
                                                 "\xff"};
  for (std::uint64_t edits = 1 + random() % 4; edits > 0 && !text.empty(); --edits) {
    const std::size_t at = random() % text.size();
    const std::size_t length = random() % 8;
    switch (random() % 5) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text[at] = static_cast<char>(text[at] ^ (1 << random() % 8));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, words[random() % words.size()]);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), length));
        break;
    }
  }
  // Half of them with a true length again, so that the parser sees them.
  if (text.size() >= 8 && random() % 2 == 0) {
    const std::size_t data = std::min<std::size_t>(20, text.size() - 8);
    text.replace(0, 8, little_endian(text.size() - 8 - data));
  }
  return text;
}

TEST(SafetensorsHostile, MutationsAreRefusedOrReadWithinTheFile) {
  const std::string whole = valid_file();
  std::mt19937_64 random(20260131);
  int taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = mutated(whole, random);
    try {
      const SafetensorsFile file = testing::open_text(text);
      std::size_t sum = 0;
      for (const StoredTensor& tensor : file.tensors()) {
        EXPECT_EQ(tensor.bytes.size(), bytes_of(tensor.dtype, tensor.shape));
        for (const std::byte byte : tensor.bytes) sum += std::to_integer<std::size_t>(byte);
        EXPECT_EQ(&file.at(tensor.name), &tensor);
      }
      ++taken;
      EXPECT_LE(sum, 255 * text.size());
    } catch (const CheckpointError&) {
    }
  }
  EXPECT_GT(taken, 200) << "mutations should sometimes leave a valid file";
  EXPECT_LT(taken, 10'000);
}

TEST(SafetensorsHostile, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  const testing::TemporaryFolder folder;
  const auto fifo = folder.path() / "fifo.safetensors";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const std::vector<std::pair<std::filesystem::path, std::string>> rows = {
      {fifo, "not a regular file"},
      {folder.path(), "Is a directory"},
      {folder.path() / "missing", "No such file or directory"},
      {"/dev/zero", "not a regular file"}};
  for (const auto& [path, pattern] : rows) {
    try {
      (void)SafetensorsFile::open(path);
      ADD_FAILURE() << path << " was taken";
    } catch (const CheckpointError& error) {
      const std::string message = describe(error);
      EXPECT_NE(message.find(pattern), std::string::npos) << message;
      EXPECT_NE(message.find(path.string()), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace accelerate
