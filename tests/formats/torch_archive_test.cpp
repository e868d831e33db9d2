// Files of the real torch.save, and what was in them.
#include "accelerate/formats/torch_archive/torch_archive.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/formats/torch_archive_support.h"
#include "tests/support/reference.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using testing::from_hex;

std::filesystem::path golden(const std::string& name) {
  const std::filesystem::path file = std::filesystem::path("torch_archive") / (name + ".pt");
  const char* other = std::getenv("ACCELERATE_GOLDEN_DIR");
  return other != nullptr ? other / file : testing::reference_path(file);
}

std::string hex_of(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) hex.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return hex;
}

std::string contiguous_bytes(const TorchTensor& tensor) {
  std::vector<std::byte> out(bytes_of(tensor.dtype, tensor.shape).value());
  tensor.copy_to(out);
  return testing::as_text(out);
}

Json row(const TorchValue& value);

Json rows(const std::vector<TorchValue>& values) {
  Json all = Json::array();
  for (const TorchValue& value : values) all.push_back(row(value));
  return all;
}

// A value as tests/reference/torch_archive.py describes it. Floats are compared by their bits.
struct Describe {
  Json operator()(const TorchNone&) { return Json::array({"none"}); }
  Json operator()(bool value) { return Json::array({"bool", value}); }
  Json operator()(std::int64_t value) { return Json::array({"int", value}); }
  Json operator()(const TorchBigInteger& value) {
    return Json::array({"big", hex_of(value.bytes)});
  }
  Json operator()(double value) { return Json::array({"float", value}); }
  Json operator()(const std::string& value) { return Json::array({"text", value}); }
  Json operator()(const TorchBytes& value) { return Json::array({"bytes", hex_of(value.bytes)}); }
  Json operator()(const TorchList& value) { return Json::array({"list", rows(value.items)}); }
  Json operator()(const TorchTuple& value) { return Json::array({"tuple", rows(value.items)}); }
  Json operator()(const TorchSet& value) { return Json::array({"set", rows(value.items)}); }
  Json operator()(const TorchDict& value) {
    Json entries = Json::array();
    for (const auto& [key, item] : value.entries)
      entries.push_back(Json::array({row(key), row(item)}));
    return Json::array({"dict", entries});
  }
  // Of a module its tensors and those of its modules, sorted by name.
  Json operator()(const TorchObject& value) {
    std::map<std::string, Json> state;
    add_tensors(value, "", state);
    Json named = Json::array();
    for (const auto& [name, tensor] : state) named.push_back(Json::array({name, tensor}));
    return Json::array({"module", named});
  }
  static void add_tensors(const TorchObject& object, const std::string& prefix,
                          std::map<std::string, Json>& state) {
    for (const auto& [key, item] : object.attributes) {
      const std::string name = prefix + *key.as<std::string>();
      if (item.as<TorchTensor>() != nullptr) state[name] = row(item);
      if (const auto* inner = item.as<TorchObject>()) add_tensors(*inner, name + ".", state);
    }
  }
  Json operator()(const TorchSize& value) { return Json::array({"size", value.sizes}); }
  Json operator()(const TorchDtype& value) { return Json::array({"dtype", value.name}); }
  Json operator()(const TorchDevice& value) { return Json::array({"device", value.name}); }
  Json operator()(const TorchTensor& value) {
    return Json::array({"tensor", dtype_name(value.dtype), value.shape, value.strides,
                        hex_of(contiguous_bytes(value)), value.is_parameter, value.requires_grad});
  }
  Json operator()(const TorchShards&) { return nullptr; }  // Their own tests compare them.
  Json operator()(const NumpyArray& value) {
    return Json::array(
        {"array", value.dtype, value.shape, value.fortran_order, hex_of(value.bytes)});
  }
};

Json row(const TorchValue& value) {
  return std::visit(Describe(), value.content);
}

// Python's float.hex() as numbers.
Json with_floats(Json described) {
  if (!described.is_array()) return described;
  if (described.size() == 2 && described[0] == "float") {
    return Json::array({"float", std::strtod(described[1].get<std::string>().c_str(), nullptr)});
  }
  for (Json& part : described) part = with_floats(part);
  return described;
}

TEST(TorchArchiveGolden, EveryValueOfEveryFileIsWhatPythonSaved) {
  const Json described = Json::parse(testing::read_reference("torch_archive.json"));
  int files = 0;
  for (const auto& [name, expected] : described.items()) {
    const TorchArchive archive = TorchArchive::open(golden(name));
    EXPECT_EQ(row(archive.value()).dump(), with_floats(expected).dump()) << name;
    ++files;
  }
  EXPECT_EQ(files, 21);
}

TEST(TorchArchiveGolden, WhatIsNoDataIsRefusedByItsName) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"refused_legacy", "before 1.6.*torch.save\\(torch.load\\("},
      {"refused_module",
       "asks for 'torch.nn.modules.linear.Linear'.*state_dict\\(\\).* "
       "\\[accelerate.error/pickle-refused\\]"},
      {"refused_conj", "conjugated.*resolve_conj"},
      {"refused_complex128", "torch.ComplexDoubleStorage.*complex64"},
      {"refused_sparse", "asks for 'torch._utils._rebuild_sparse_tensor'"},
      {"refused_quantized", "asks for 'torch.*'"},
      {"refused_class", "asks for 'pathlib.PurePosixPath'"},
      {"refused_function", "asks for '__builtin__.print'"},
      {"refused_slice", "asks for '__builtin__.slice'"},
      {"refused_objects", "numpy object that has elements of the type 'O8'"},
      {"refused_big_endian", "byte order '>'"},
      {"refused_frozenset", "asks for '__builtin__.frozenset'"}};
  for (const auto& [name, pattern] : rows) {
    try {
      (void)TorchArchive::open(golden(name));
      ADD_FAILURE() << name << " was taken";
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(pattern))) << error.what();
      EXPECT_NE(std::string(error.what()).find(golden(name).string()), std::string::npos);
    }
  }
}

TEST(TorchArchive, AStateDictGivesItsTensorsInOrder) {
  const TorchArchive archive = TorchArchive::open(golden("module_state"));
  const auto tensors = archive.state_dict();
  ASSERT_EQ(tensors.size(), 9);
  EXPECT_EQ(tensors[0].first, "0.weight");
  EXPECT_EQ(tensors[0].second->shape, (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(tensors[6].first, "1.num_batches_tracked");
  EXPECT_TRUE(tensors[0].second->aligned());
}

TEST(TorchArchive, AScriptedModuleGivesItsTensorsByTheirNames) {
  const TorchArchive archive = TorchArchive::open(golden("script"));
  const Json state = Json::parse(testing::read_reference("torch_archive.json"))["script"][1];
  std::map<std::string, const TorchTensor*> tensors;
  for (const auto& [name, tensor] : archive.state_dict()) tensors.emplace(name, tensor);
  ASSERT_EQ(tensors.size(), state.size());
  for (const Json& expected : state) {
    const auto found = tensors.find(expected[0].get<std::string>());
    ASSERT_NE(found, tensors.end()) << expected[0];
    EXPECT_EQ(hex_of(contiguous_bytes(*found->second)), expected[1][4]) << expected[0];
  }
  EXPECT_EQ(tensors.at("b.weight")->storage, tensors.at("a.weight")->storage);
  EXPECT_FALSE(tensors.at("turned")->contiguous());
}

TEST(TorchArchive, TwoTensorsOfOneNameAreRefused) {
  const std::string tensor =
      testing::text("a.w") +
      testing::tensor_operations(std::string("K\0", 2), "K\6\x85", "K\1\x85", "K\6");
  const std::string storage(24, '\1');
  const std::string dict =
      testing::archive_of(testing::pickle("}(" + tensor + tensor + "u"), {storage});
  // "a.w" itself, and "w" of the module "a".
  const std::string object = "c__torch__\nNet\n)\x81}(";
  const std::string script = testing::zip_of(
      {{"a/data.pkl", testing::pickle(object + tensor + testing::text("a") + object +
                                      testing::text("w") + tensor.substr(8) + "ubub")},
       {"a/constants.pkl", testing::pickle("N")},
       {"a/data/0", storage}});
  for (const std::string& bytes : {dict, script}) {
    const TorchArchive archive = testing::open_archive(bytes);
    try {
      (void)archive.state_dict();
      ADD_FAILURE();
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex("two tensors called 'a.w'")))
          << error.what();
    }
  }
}

TEST(TorchArchive, AStateDictBelowAKeyIsFoundByItAndItsKeyIsNamedWithoutIt) {
  const std::string whole = testing::archive_of(
      testing::pickle(
          "}(" + testing::text("epoch") + "K\3" + testing::text("model") + "}" +
          testing::text("w") +
          testing::tensor_operations(std::string("K\0", 2), "K\6\x85", "K\1\x85", "K\6") + "su"),
      {std::string(24, '\1')});
  const TorchArchive archive = testing::open_archive(whole);
  EXPECT_EQ(archive.state_dict("model").at(0).first, "w");
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "'epoch' is the number 3; there is one below 'model'.*--key"},
      {"state_dict", "nothing below the key 'state_dict'.*there is one below 'model'"},
      {"epoch", "it holds the number 3"}};
  for (const auto& [key, pattern] : rows) {
    try {
      (void)archive.state_dict(key);
      ADD_FAILURE() << key;
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(pattern))) << error.what();
    }
  }
}

TEST(TorchArchive, WhatIsNoStateDictSaysWhatItIs) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"one_tensor", "it holds a tensor F32 \\[4, 6\\]"},
      {"numbers", "it holds a list of 16 items"},
      {"optimizer", "'state' is a dict of 6 items"},
      {"none", "it holds None"}};
  for (const auto& [name, pattern] : rows) {
    const TorchArchive archive = TorchArchive::open(golden(name));
    try {
      (void)archive.state_dict();
      ADD_FAILURE() << name;
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(std::regex_search(error.what(), std::regex(pattern))) << error.what();
    }
  }
}

TEST(TorchArchive, ValuesAreFoundByTextAndByNumber) {
  const TorchArchive archive = TorchArchive::open(golden("optimizer"));
  const TorchValue* state = archive.value().find("state");
  ASSERT_NE(state, nullptr);
  const TorchValue* first = state->find(0);
  ASSERT_NE(first, nullptr);
  EXPECT_NE(first->find("exp_avg")->as<TorchTensor>(), nullptr);
  EXPECT_EQ(first->find("none"), nullptr);
  EXPECT_EQ(state->find(77), nullptr);
  const TorchValue* groups = archive.value().find("param_groups");
  ASSERT_EQ(groups->items().size(), 1);
  EXPECT_EQ(*groups->items()[0].find("weight_decay")->as<double>(), 0.01);
}

TEST(TorchArchive, TensorsOfOneStorageAreKnownByItsName) {
  const TorchArchive archive = TorchArchive::open(golden("views"));
  const auto tensors = archive.state_dict();
  EXPECT_EQ(tensors[0].second->storage, tensors[1].second->storage);
  EXPECT_TRUE(tensors[0].second->contiguous());
  EXPECT_FALSE(tensors[1].second->contiguous());
  EXPECT_EQ(tensors[2].second->storage_offset, 2);
  EXPECT_NE(tensors[0].second->storage, tensors.back().second->storage);
}

TEST(TorchArchive, TensorsOutliveTheArchiveThroughItsContent) {
  std::optional<TorchArchive> archive = TorchArchive::open(golden("one_tensor"));
  const auto content = archive->content();
  const TorchTensor tensor = *archive->value().as<TorchTensor>();
  archive.reset();
  EXPECT_EQ(contiguous_bytes(tensor).size(), 96);
}

}  // namespace
}  // namespace accelerate
