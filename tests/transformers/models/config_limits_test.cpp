// Values of config.json from which no model can be made, for every key of every architecture.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/support/errors.h"
#include "tests/support/messages.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using Json = nlohmann::json;
using testing::expect_has;
using testing::message_of;

// What making a model of `config` says.
std::string said_of(const PretrainedConfig& config) {
  return message_of<ConfigError>([&] { (void)AutoModel::from_config(config); });
}

PretrainedConfig changed(const std::string& kind, const std::string& key, const Json& value) {
  Json values = Json::parse(testing::small_config(kind).to_json_string());
  values[key] = value;
  return PretrainedConfig::from_json(values.dump(), "config.json");
}

void expect_refused(const std::string& kind, const std::string& key, const Json& value) {
  SCOPED_TRACE(kind + ": " + key + " = " + value.dump());
  const std::string said = said_of(changed(kind, key, value));
  expect_has(said, "config.json: '" + key + "' is ");
  expect_has(said, "; allowed is ");
}

// Refuses what Transformers' configurations refuse by type, and numbers beyond the limits.
void expect_limits(const std::string& kind, const detail::ConfigKey& key) {
  using enum detail::ConfigKey::Kind;
  const std::string name(key.name);
  std::vector<Json> values{key.kind == integers ? Json::array({"x"}) : Json::array({1})};
  if (!key.may_be_null) values.push_back(nullptr);
  if (key.kind == integer || key.kind == number) {
    values.insert(values.end(), {"x", true, 1e19, key.least - 1, key.most * 2});
  } else {
    values.push_back(3);
    values.push_back(key.kind == texts || key.kind == integers ? Json("x") : Json(1.5));
  }
  if (key.kind == boolean) values.push_back("x");
  if (key.kind == integer) {
    values.insert(values.end(), {2.5, 2.0, Json::parse("100000000000000000000")});
    values.insert(values.end(), {static_cast<std::int64_t>(key.least) - 1,
                                 static_cast<std::int64_t>(key.most) * 2});
  }
  if (key.kind == number) {
    auto config = testing::small_config(kind);
    config.set(name, std::nan(""));
    expect_has(said_of(config), "'" + name + "' is '.nan'");
  }
  for (const Json& value : values) expect_refused(kind, name, value);
}

TEST(ConfigLimits, EveryKeyOfEveryArchitecture) {
  for (const auto& architecture : detail::architectures()) {
    EXPECT_GE(architecture.keys.size(), 10U);
    for (const auto& key : architecture.keys)
      expect_limits(std::string(architecture.model_type), key);
  }
}

TEST(ConfigLimits, KeysThatAllArchitecturesHave) {
  for (const std::string kind : testing::small_kinds()) {
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      for (const Json& value : {Json("x"), Json(1.5), Json(1e19), Json(true), Json(1LL << 40)})
        expect_refused(kind, key, value);
    }
    expect_refused(kind, "problem_type", "guessing");
    expect_refused(kind, "problem_type", 1);
    expect_has(said_of(changed(kind, "layer_types", {"half"})), "'layer_types' has 'half'");
    if (!testing::has_task(kind, Task::sequence_classification)) continue;
    for (const auto& [key, value] : {std::pair("num_labels", Json(0)),
                                     {"num_labels", -3},
                                     {"num_labels", 100'000'000},
                                     {"id2label", Json::object()}}) {
      const auto config = changed(kind, key, value);
      expect_has(message_of<ConfigError>(
                     [&] { (void)AutoModelForSequenceClassification::from_config(config); }),
                 std::string("config.json: '") + key + "' is ");
    }
  }
}

TEST(ConfigLimits, LabelsThatNoHeadReads) {
  for (const std::string kind : testing::small_kinds()) {
    for (const Json& value : {Json("3"), Json(3.0), Json(nullptr)})
      expect_has(said_of(changed(kind, "num_labels", value)), "'num_labels' is ");
    for (const Json& value : {Json("x"), Json(3), Json::array({"a", "b"})})
      expect_has(said_of(changed(kind, "id2label", value)), "'id2label' is ");
    for (const char* number : {"no", "1.0", ""})
      expect_has(said_of(changed(kind, "id2label", Json::object({{number, "a"}}))),
                 "'id2label' has the number '" + std::string(number) + "'");
  }
}

TEST(ConfigLimits, EachLayerHasAType) {
  for (const char* kind : {"llama", "gemma2", "gemma3_text", "phi3", "modernbert", "bert"}) {
    for (const Json& types : {Json::array(), Json::array({"full_attention"})})
      expect_has(said_of(changed(kind, "layer_types", types)),
                 "one for each of 'num_hidden_layers'");
  }
}

TEST(ConfigLimits, BaseOfRotationsIsANumber) {
  for (const auto& [kind, key] : {std::pair("llama", "rope_theta"),
                                  {"phi3", "rope_theta"},
                                  {"gemma2", "rope_theta"},
                                  {"gemma3_text", "rope_local_base_freq"},
                                  {"modernbert", "global_rope_theta"}})
    expect_refused(kind, key, nullptr);
}

TEST(ConfigLimits, WordsThatNobodyKnows) {
  for (const std::string kind : testing::small_kinds()) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      for (const char* word : {"float33", "int8", "bf16", "torch.float16", "auto", ""}) {
        expect_refused(kind, key, word);
        const std::string said = said_of(changed(kind, key, {{"", word}}));
        expect_has(said, std::string("config.json, ") + key + ": '' is ");
        expect_has(said, "allowed is one of float32, ");
      }
      for (const Json& value : {Json(7), Json(true), Json::array({"float32"})})
        expect_refused(kind, key, value);
      expect_has(said_of(changed(kind, key, {{"", "float16"}, {"vision", "int4"}})), "'vision' is");
    }
    for (const char* key : {"attn_implementation", "_attn_implementation"}) {
      expect_refused(kind, key, "flash");
      expect_refused(kind, key, 2);
    }
  }
  for (const char* kind : {"bert", "roberta"}) {
    for (const Json& value : {Json("relative_key"), Json("nonsense"), Json(1)})
      expect_refused(kind, "position_embedding_type", value);
  }
}

TEST(ConfigLimits, NamesTheKeysThatContradictEachOther) {
  const auto said = [](const char* kind, const char* key, const Json& value) {
    return said_of(changed(kind, key, value));
  };
  expect_has(said("bert", "num_attention_heads", 3),
             "'hidden_size' is 16, which 3 attention heads");
  expect_has(said("roberta", "hidden_size", 15), "'hidden_size' is 15");
  expect_has(said("distilbert", "n_heads", 5), "'dim' is 16");
  expect_has(said("gpt2", "n_head", 5), "'n_embd' is 16");
  expect_has(said("llama", "num_key_value_heads", 3), "'num_key_value_heads' is 3");
  expect_has(said("mistral", "num_attention_heads", 6), "'hidden_size' is 16");
  expect_has(said("qwen2", "head_dim", 3), "allowed is an even number");
  expect_has(said("qwen2", "layer_types", {"full_attention"}), "has 1 entries; allowed are 2");
  expect_has(said("qwen2", "layer_types", {"full_attention", "half"}), "has 'half'");
  for (const char* kind : {"bert", "roberta", "distilbert", "llama", "mistral", "qwen2"})
    expect_has(said(kind, "pad_token_id", 30),
               "'pad_token_id' is 30; allowed are null and 0 to 29");
  expect_has(said("roberta", "pad_token_id", 12), "'max_position_embeddings' is 12");
  for (const Json& value : {Json("c2c"), Json("p2c|x"), Json({"c2p", "x"}), Json(3), Json({1})})
    expect_has(said("deberta-v2", "pos_att_type", value), "'pos_att_type' is ");
  expect_has(said("deberta-v2", "conv_kernel_size", 3), "allowed is 0");
  expect_has(said("deberta-v2", "position_buckets", 1), "allowed is -1, or 2 and more");
  expect_has(said("deberta-v2", "attention_head_size", 3), "'attention_head_size' is ");
  expect_has(said("modernbert", "classifier_pooling", "max"), "allowed is cls or mean");
  expect_has(said("modernbert", "layer_types", {"full_attention"}), "has 1 entries; allowed are 2");
  expect_has(said("modernbert", "num_attention_heads", 16), "allowed is an even number");
  expect_has(said("modernbert", "rope_parameters", {{"rope_theta", 5.0}}), "'rope_theta' is ");
  expect_has(said("modernbert", "global_rope_theta", -1), "'global_rope_theta' is ");
  // Below zero it counts from the end, as in the files of the first Llama.
  EXPECT_NO_THROW((void)AutoModel::from_config(changed("llama", "pad_token_id", -1)));
}

TEST(ConfigLimits, KeysOfRotaryEmbeddings) {
  const Json llama3{{"rope_type", "llama3"},
                    {"factor", 8.0},
                    {"low_freq_factor", 1.0},
                    {"high_freq_factor", 4.0},
                    {"original_max_position_embeddings", 16}};
  Json yarn{{"rope_type", "yarn"}, {"factor", 4.0}};
  for (const char* key : {"mscale", "mscale_all_dim", "attention_factor", "beta_fast", "beta_slow"})
    yarn[key] = 1.0;
  for (const std::string kind : {"llama", "mistral", "qwen2"}) {
    for (const Json& good : {llama3, yarn}) {
      EXPECT_NO_THROW((void)AutoModel::from_config(changed(kind, "rope_parameters", good)));
      for (const auto& [key, value] : good.items()) {
        for (const Json& bad : {Json("x"), Json(-1), Json(1e19), Json(true), Json::array({1})}) {
          Json rope = good;
          rope[key] = bad;
          SCOPED_TRACE(kind + " " + rope.dump());
          const std::string said = said_of(changed(kind, "rope_parameters", rope));
          expect_has(said, "config.json, rope_parameters: ");
          expect_has(said, key);
          expect_has(said, "; allowed ");
        }
      }
    }
    expect_refused(kind, "rope_theta", -1);
    expect_refused(kind, "rope_theta", "x");
  }
}

TEST(ConfigLimits, KeysOfGemma) {
  for (const std::string kind : {"gemma2", "gemma3_text"}) {
    expect_refused(kind, "use_bidirectional_attention", true);
    expect_refused(kind, "head_dim", 5);
    expect_refused(kind, "sliding_window", nullptr);
    Json values = Json::parse(testing::small_config(kind).to_json_string());
    values["sliding_window"] = nullptr;
    values["layer_types"] = {"full_attention", "full_attention"};
    EXPECT_NO_THROW(
        (void)AutoModel::from_config(PretrainedConfig::from_json(values.dump(), "config.json")));
    expect_has(said_of(changed(kind, "num_attention_heads", 3)), "'hidden_size' is 16, which 3");
    expect_has(said_of(changed(kind, "num_key_value_heads", 3)), "allowed is a divisor");
  }
  expect_refused("gemma3_text", "rope_theta", -1);
  expect_refused("gemma3_text", "rope_local_base_freq", "x");
  for (const Json& rope : {Json{{"rope_type", "default"}}, Json{{"full_attention", 1}}})
    expect_has(said_of(changed("gemma3_text", "rope_parameters", rope)), "; allowed is a");
  expect_has(said_of(changed("gemma3_text", "rope_scaling", {{"rope_type", "linear"}})),
             "'factor' is missing");
}

TEST(ConfigLimits, FactorsOfLongRotaryEmbeddings) {
  const Json good{{"rope_type", "longrope"},
                  {"short_factor", {1.0, 1.5}},
                  {"long_factor", {2, 4.0}},
                  {"original_max_position_embeddings", 16}};
  for (const std::string kind : {"llama", "phi3"}) {
    EXPECT_NO_THROW((void)AutoModel::from_config(changed(kind, "rope_parameters", good)));
    for (const char* key : {"short_factor", "long_factor"}) {
      for (const Json& bad :
           {Json("x"), Json(1.0), Json({1.0}), Json({1.0, 0.0}), Json({"x", 1})}) {
        Json rope = good;
        rope[key] = bad;
        expect_has(said_of(changed(kind, "rope_parameters", rope)),
                   "; allowed is a list of 2 numbers, one for each rotated pair");
        rope.erase(key);
        expect_has(said_of(changed(kind, "rope_parameters", rope)),
                   std::string("'") + key + "' is missing, which rope_type 'longrope' needs");
      }
    }
  }
  Json short_text = good;
  short_text["original_max_position_embeddings"] = 1;
  expect_has(said_of(changed("llama", "rope_parameters", short_text)), "allowed is 2 or more");
  for (const char* older : {"su", "yarn"}) {
    Json rope = good;
    rope["type"] = older;
    rope.erase("rope_type");
    EXPECT_NO_THROW((void)AutoModel::from_config(changed("phi3", "rope_scaling", rope)));
  }
  expect_has(said_of(changed("phi3", "rope_parameters", {{"rope_type", "linear"}, {"factor", 2}})),
             "rope_type is 'linear'; allowed are default, longrope");
  expect_has(said_of(changed("llama", "rope_parameters", {{"rope_type", "su"}})),
             "rope_type is 'su'; allowed are default, linear, dynamic, yarn, longrope and llama3");
  expect_has(said_of(changed("phi3", "partial_rotary_factor", 1.5)), "'partial_rotary_factor' is");
  expect_has(said_of(changed("phi3", "head_dim", 3)), "allowed is an even number");
}

PretrainedConfig with_rope(const std::string& kind, const Json& keys, const Json& rope) {
  Json values = Json::parse(testing::small_config(kind).to_json_string());
  values.update(keys);
  values["rope_parameters"] = rope;
  return PretrainedConfig::from_json(values.dump(), "config.json");
}

const Json kNear{{"rope_type", "default"}, {"rope_theta", 50.0}},
    kFar{{"rope_type", "linear"}, {"rope_theta", 9000.0}, {"factor", 2.0}},
    kBothTypes{{"use_sliding_window", true}, {"sliding_window", 4}, {"max_window_layers", 1}};

TEST(ConfigLimits, RotaryEmbeddingsByTypeOfLayerAreThoseOfTheLayers) {
  const auto states_of = [](const PretrainedConfig& config) {
    at::manual_seed(3);
    const auto model = AutoModel::from_config(config);
    model->eval();
    return model->forward(Inputs{{"input_ids", at::arange(8).unsqueeze(0)}}).last_hidden_state;
  };
  const Json far_too{{"full_attention", kNear}, {"sliding_attention", kFar}};
  for (const auto& [kind, keys, rope] : std::vector<std::tuple<const char*, Json, Json>>{
           {"llama", Json::object(), {{"full_attention", kNear}}},
           {"llama", Json::object(), {{"full_attention", kNear}, {"sliding_attention", nullptr}}},
           {"llama", Json::object(), far_too},
           {"mistral", Json::object(), {{"sliding_attention", kNear}}},
           {"mistral", {{"sliding_window", nullptr}}, far_too},
           {"qwen2", Json::object(), far_too},
           {"qwen2", kBothTypes, {{"full_attention", kNear}, {"sliding_attention", kNear}}},
           {"qwen2", {{"layer_types", {"full_attention", "full_attention"}}}, far_too}}) {
    SCOPED_TRACE(std::string(kind) + " " + rope.dump());
    const at::Tensor flat = states_of(with_rope(kind, keys, kNear));
    EXPECT_TRUE(states_of(with_rope(kind, keys, rope)).equal(flat));
    auto older = keys;
    older["rope_scaling"] = rope;
    EXPECT_TRUE(states_of(with_rope(kind, older, nullptr)).equal(flat));
    EXPECT_FALSE(states_of(with_rope(kind, keys, nullptr)).equal(flat)) << "the usual theta";
  }
}

TEST(ConfigLimits, RotaryEmbeddingsByTypeOfLayerThatDoNotFitTheLayers) {
  const Json both{{"full_attention", kNear}, {"sliding_attention", kFar}};
  for (const auto& [kind, keys, rope, says] :
       std::vector<std::tuple<const char*, Json, Json, const char*>>{
           {"qwen2", kBothTypes, both, "'full_attention' and 'sliding_attention' differ"},
           {"qwen2", kBothTypes, {{"full_attention", kNear}}, "'sliding_attention' is missing"},
           {"llama", Json::object(), {{"sliding_attention", kNear}}, "'full_attention' is missing"},
           {"llama",
            {{"layer_types", {"full_attention", "sliding_attention"}}},
            both,
            "'full_attention' and 'sliding_attention' differ"},
           {"mistral",
            Json::object(),
            {{"full_attention", kNear}},
            "'sliding_attention' is missing"},
           {"mistral", Json::object(), {{"chunked_attention", kNear}}, "'chunked_attention' is "},
           {"llama",
            Json::object(),
            {{"full_attention", kNear}, {"rope_theta", 50.0}},
            "'rope_theta' is '50.0'; allowed is "},
           {"llama",
            Json::object(),
            {{"full_attention", {{"rope_type", "linear"}}}},
            ", full_attention: 'factor' is missing"}}) {
    SCOPED_TRACE(std::string(kind) + " " + rope.dump());
    const std::string said = said_of(with_rope(kind, keys, rope));
    expect_has(said, "config.json, rope_parameters");
    expect_has(said, says);
  }
}

TEST(ConfigLimits, NamesTheLineOfANumberThatIsNone) {
  const auto said_of_number = [](const std::string& number) {
    const auto text = R"({"model_type": "bert", "hidden_dropout_prob": )" + number + "}";
    return message_of<ConfigError>([&] { (void)PretrainedConfig::from_json(text, "config.json"); });
  };
  for (const char* number : {"NaN", "Infinity", "-Infinity", "-"})
    expect_has(said_of_number(number), "config.json, line 1: this is not JSON near ");
  expect_has(said_of_number("1e999"), "config.json, line 1: the number '1e999' is too large");
}

TEST(ConfigLimits, NothingIsAllocatedForAModelThatTheMachineCannotHold) {
  auto config = changed("bert", "hidden_size", 1 << 17);
  config.set("vocab_size", std::int64_t{1} << 24);
  expect_has(said_of(config), "this machine has");
  config = changed("gpt2", "n_embd", 1 << 17);
  config.set("n_layer", std::int64_t{1} << 12);
  expect_has(said_of(config), "make 512.00 TB of weights or more");
}

TEST(ConfigLimits, TakesWhatRealFilesSay) {
  for (const auto& [kind, key, value] : std::vector<std::tuple<const char*, const char*, Json>>{
           {"bert", "hidden_dropout_prob", 0},
           {"bert", "classifier_dropout", nullptr},
           {"bert", "num_hidden_layers", 0},
           {"bert", "position_embedding_type", "absolute"},
           {"bert", "dtype", nullptr},
           {"gpt2", "_attn_implementation", "flash_attention_2"},
           {"gpt2", "attn_implementation", nullptr},
           {"gpt2", "n_inner", nullptr},
           {"gpt2", "pad_token_id", nullptr},
           {"gpt2", "eos_token_id", 50256},
           {"llama", "eos_token_id", {1, 2}},
           {"llama", "num_key_value_heads", nullptr},
           {"llama", "attention_dropout", nullptr},
           {"llama", "rope_scaling", nullptr},
           {"mistral", "sliding_window", nullptr},
           {"qwen2", "layer_types", nullptr},
           {"qwen2", "max_position_embeddings", 1 << 24}}) {
    EXPECT_NO_THROW((void)AutoModel::from_config(changed(kind, key, value))) << kind << " " << key;
  }
}

}  // namespace
}  // namespace accelerate
