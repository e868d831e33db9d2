#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "accelerate/base/bytes.h"
#include "accelerate/base/file_system.h"
#include "accelerate/formats/torch_archive/zip_directory.h"
#include "accelerate/tensor/weights.h"
#include "accelerate/transformers/models/loading/load_weights.h"
#include "tests/formats/torch_archive_support.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/messages.h"
#include "tests/support/support.h"
#include "tests/transformers/models/small_models.h"

namespace accelerate {
namespace {

using testing::expect_has;
using testing::message_of;
using testing::TemporaryFolder;

std::vector<at::Tensor> parameters_of(const std::shared_ptr<PreTrainedModel>& model) {
  return model->parameters();
}

void expect_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].equal(b[i])) << i;
}

class FromPretrained : public ::testing::Test {
 protected:
  FromPretrained() { testing::write_small_bert(folder.path()); }
  [[nodiscard]] std::string where() const { return folder.path().string(); }
  TemporaryFolder folder;
};

TEST_F(FromPretrained, ReadsWhatItWrote) {
  const auto model = AutoModel::from_pretrained(where());
  EXPECT_FALSE(model->is_training());
  at::manual_seed(3);
  expect_equal(parameters_of(model),
               parameters_of(AutoModel::from_config(testing::small_bert_config())));
  const TemporaryFolder again;
  model->save_pretrained(again.path(), {.max_shard_size = "4KB"});
  EXPECT_TRUE(std::filesystem::exists(again.path() / "model.safetensors.index.json"));
  expect_equal(parameters_of(model),
               parameters_of(AutoModel::from_pretrained(again.path().string())));
  model->save_pretrained(again.path());  // What is no more of it goes.
  EXPECT_FALSE(std::filesystem::exists(again.path() / "model.safetensors.index.json"));
}

TEST_F(FromPretrained, ReadsWhatItWroteAsFilesOfTorchSave) {
  const auto model = AutoModel::from_pretrained(where());
  for (const char* size : {"50GB", "4KB"}) {
    const TemporaryFolder out;
    model->save_pretrained(out.path(), {.max_shard_size = size, .safe_serialization = false});
    EXPECT_FALSE(std::filesystem::exists(out.path() / "model.safetensors"));
    expect_equal(parameters_of(model),
                 parameters_of(AutoModel::from_pretrained(out.path().string())));
  }
}

// As FSDP of Python Accelerate names a full state; tests/checkpoint reads its other forms.
TEST_F(FromPretrained, ReadsWhatFsdpOfPythonSaved) {
  const auto model = AutoModel::from_pretrained(where());
  const TemporaryFolder out;
  model->save_pretrained(out.path(), {.safe_serialization = false});
  std::filesystem::rename(out.path() / "pytorch_model.bin", out.path() / "pytorch_model_fsdp.bin");
  expect_equal(parameters_of(model),
               parameters_of(AutoModel::from_pretrained(out.path().string())));
}

// As under ZeRO 0; tests/formats and tests/checkpoint read the other stages.
TEST_F(FromPretrained, ReadsWhatDeepSpeedSaved) {
  const auto model = AutoModel::from_pretrained(where());
  const TemporaryFolder out;
  model->save_pretrained(out.path(), {.safe_serialization = false});
  const std::string file = testing::file_text(out.path() / "pytorch_model.bin");
  std::vector<testing::ZipPart> parts;
  for (const auto& entry : detail::read_zip_directory(testing::as_bytes(file))) {
    std::string data(detail::byte_text(entry.bytes));
    if (entry.name.ends_with("/data.pkl"))
      data = testing::pickle("}" + testing::text("module") + data.substr(2, data.size() - 3) + "s");
    parts.push_back({entry.name, data});
  }
  std::filesystem::remove(out.path() / "pytorch_model.bin");
  std::filesystem::create_directory(out.path() / "global_step1");
  std::ofstream(out.path() / "global_step1" / "mp_rank_00_model_states.pt", std::ios::binary)
      << testing::zip_of(parts);
  expect_equal(parameters_of(model),
               parameters_of(AutoModel::from_pretrained(out.path().string())));
}

TEST_F(FromPretrained, WritesByTheUsersFunction) {
  const auto model = AutoModelForMaskedLM::from_pretrained(where());
  const TemporaryFolder out;
  std::size_t files = 0;
  model->save_pretrained(out.path(), {.save_function =
                                          [&](const auto& tensors, const auto& file) {
                                            ++files;
                                            EXPECT_TRUE(file.string().ends_with(".safetensors"));
                                            save_weights(tensors, out.path() / "one", 1 << 30);
                                          },
                                      .max_shard_size = "4KB"});
  EXPECT_GT(files, 2U);
  EXPECT_TRUE(std::filesystem::exists(out.path() / "model.safetensors.index.json"));
  files = 0;
  model->save_pretrained(
      out.path() / "not",
      {.is_main_process = false, .save_function = [&](const auto&, const auto&) { ++files; }});
  EXPECT_EQ(files, 0U);
  EXPECT_FALSE(std::filesystem::exists(out.path() / "not"));
}

TEST_F(FromPretrained, WritesWhatIsTiedOnce) {
  const auto model = AutoModelForMaskedLM::from_pretrained(where());
  const TemporaryFolder out;
  model->save_pretrained(out.path());
  for (const auto& [name, tensor] : map_weights(out.path()).outlines)
    EXPECT_NE(name, "cls.predictions.decoder.weight");
}

TEST_F(FromPretrained, WritesTheStateThatItIsGiven) {
  const auto model = AutoModel::from_pretrained(where());
  const TemporaryFolder out;
  std::vector<NamedTensor> state = state_dict(view_of(*model));
  for (auto& item : state) item.tensor = item.tensor.detach() + 1;
  model->save_pretrained(out.path(), {.state_dict = state});
  const auto again = AutoModel::from_pretrained(out.path().string());
  EXPECT_TRUE(again->parameters().front().equal(model->parameters().front() + 1));
}

TEST_F(FromPretrained, TakesTheTypeThatIsAsked) {
  for (const auto& [word, type] : {std::pair{"float32", at::kFloat},
                                   {"bfloat16", at::kBFloat16},
                                   {"float16", at::kHalf},
                                   {"auto", at::kFloat}})
    EXPECT_EQ(
        AutoModel::from_pretrained(where(), {.dtype = word})->parameters().front().scalar_type(),
        type);
  expect_has(
      message_of<UsageError>([&] { (void)AutoModel::from_pretrained(where(), {.dtype = "int4"}); }),
      "auto, float32, bfloat16");
}

TEST_F(FromPretrained, TakesTheTypeThatTheConfigurationNames) {
  for (const auto& [dtype, type] : {std::pair{R"("half")", at::kHalf},
                                    {R"("double")", at::kDouble},
                                    {R"("float")", at::kFloat},
                                    {R"("bfloat16")", at::kBFloat16},
                                    {R"({"": "float16"})", at::kHalf},
                                    {R"({"vision": "float16"})", at::kFloat}}) {
    for (const std::string key : {"dtype", "torch_dtype"}) {
      auto config = testing::small_bert_config();
      config.erase("dtype");
      auto text = config.to_json_string();
      text.insert(text.find('{') + 1, '"' + key + "\": " + dtype + ",");
      folder.write("config.json", text);
      EXPECT_EQ(AutoModel::from_pretrained(where())->parameters().front().scalar_type(), type)
          << key << " " << dtype;
    }
  }
}

// Saves a classifier with numbers of `type` in its first and its last tensor, and opens it.
void expect_numbers_refused(PreTrainedModel& model, at::ScalarType type, const std::string& name,
                            SavePretrainedOptions layout) {
  layout.state_dict = state_dict(view_of(model));
  NamedTensor &first = layout.state_dict->front(), &last = layout.state_dict->back();
  for (NamedTensor* item : {&first, &last}) item->tensor = item->tensor.detach().to(type);
  const TemporaryFolder out;
  model.save_pretrained(out.path(), layout);
  const auto said = message_of<CheckpointError>([&] {
    (void)AutoModelForSequenceClassification::from_pretrained(out.path().string(),
                                                              {.ignore_mismatched_sizes = true});
  });
  expect_has(said, "the weights at " + out.path().string() + " have other kinds of numbers");
  expect_has(said, first.name + " ");
  expect_has(said, last.name + " ");
  std::ostringstream shape;
  shape << first.tensor.sizes();
  expect_has(said, name + " " + shape.str() + " in the files, float32 in the model");
}

// All architectures and layouts of files. Python converts such numbers without a word.
TEST(FromPretrainedNumbers, RefusesAnotherKindOfNumber) {
  for (const std::string kind : testing::small_kinds(Task::sequence_classification)) {
    const auto model = AutoModelForSequenceClassification::from_config(testing::small_config(kind));
    for (const auto& [type, name] :
         {std::pair{at::kInt, "int32"}, {at::kBool, "bool"}, {at::kComplexFloat, "complex64"}}) {
      for (const auto& [size, is_safe] :
           {std::pair{"50GB", true}, {"4KB", true}, {"50GB", false}, {"4KB", false}}) {
        SCOPED_TRACE(kind + " " + name + " " + size);
        expect_numbers_refused(*model, type, name,
                               {.max_shard_size = size, .safe_serialization = is_safe});
      }
    }
  }
}

TEST_F(FromPretrained, ChangingAModelLeavesTheFile) {
  const auto before = AutoModel::from_pretrained(where());
  {
    const at::NoGradGuard no_grad;
    for (auto& parameter : AutoModel::from_pretrained(where())->parameters()) parameter.zero_();
  }
  expect_equal(parameters_of(before), parameters_of(AutoModel::from_pretrained(where())));
}

TEST_F(FromPretrained, RefusesAFileThatIsCut) {
  const auto file = folder.path() / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 8);
  expect_has(message_of<CheckpointError>([&] { (void)AutoModel::from_pretrained(where()); }),
             "model.safetensors");
}

TEST_F(FromPretrained, AFileThatIsCutUnderAModelIsAnError) {
  const auto file = folder.path() / "model.safetensors";
  const Inputs inputs{{"input_ids", at::ones({1, 4}, at::kLong)}};
  {
    const auto model = AutoModel::from_pretrained(where());
    std::filesystem::resize_file(file, 4096);
    const auto message = message_of<FileError>([&] { (void)model->forward(inputs); });
    expect_has(message, file.string());
    expect_has(message, "cut short");
    const TemporaryFolder out;
    EXPECT_THROW(model->save_pretrained(out.path()), Error);
    EXPECT_FALSE(std::filesystem::exists(out.path() / "model.safetensors"));
  }
  testing::write_small_bert(folder.path());
  (void)AutoModel::from_pretrained(where())->forward(inputs);
}

TEST_F(FromPretrained, RefusesTwoValuesOfWhatIsTied) {
  auto config = testing::small_config("llama");
  const auto save = [&](bool ties) {
    config.set("tie_word_embeddings", ties);
    AutoModelForCausalLM::from_config(config)->save_pretrained(folder.path());
  };
  save(false);
  config.set("tie_word_embeddings", true);
  config.save_pretrained(folder.path());
  const auto open = [&] { (void)AutoModelForCausalLM::from_pretrained(where()); };
  const auto message = message_of<CheckpointError>(open);
  expect_has(message, "'lm_head.weight'");
  expect_has(message, "'model.embed_tokens.weight'");
  expect_has(message, "tie_word_embeddings");
  // The same values twice are what Python's torch.save writes.
  auto tensors = map_weights(folder.path());
  std::vector<NamedTensor> twice;
  for (const auto& [name, outline] : tensors.outlines)
    twice.push_back(
        {name,
         tensors.read(name == "lm_head.weight" ? "model.embed_tokens.weight" : name).clone()});
  save_weights(twice, folder.path(), std::uint64_t{1} << 40);
  open();
}

TEST_F(FromPretrained, RefusesWeightsInTheBlocksOfOthers) {
  auto text = PretrainedConfig::from_pretrained(where()).to_json_string();
  text.insert(text.find('{') + 1, R"("quantization_config": {"quant_method": "fp8"},)");
  PretrainedConfig::from_json(text, "config.json").save_pretrained(folder.path());
  expect_has(message_of<ConfigError>([&] { (void)AutoModel::from_pretrained(where()); }),
             "'quantization_config' says that the weights are stored by 'fp8'");
}

TEST_F(FromPretrained, AFileThatIsCutByAByteIsAnErrorToo) {
  const auto file = folder.path() / "model.safetensors";
  const auto model = AutoModel::from_pretrained(where());
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const Inputs inputs{{"input_ids", at::ones({1, 4}, at::kLong)}};
  EXPECT_THROW((void)model->forward(inputs), FileError);
}

TEST_F(FromPretrained, RefusesFoldersWithoutFiles) {
  std::filesystem::remove(folder.path() / "model.safetensors");
  (void)message_of<CheckpointError>([&] { (void)AutoModel::from_pretrained(where()); });
  std::filesystem::remove(folder.path() / "config.json");
  expect_has(message_of<ConfigError>([&] { (void)AutoModel::from_pretrained(where()); }),
             "no config.json");
}

TEST_F(FromPretrained, RefusesUnknownModels) {
  folder.write("config.json", R"({"model_type": "berd"})");
  const auto said = message_of<ConfigError>([&] { (void)AutoModel::from_pretrained(where()); });
  expect_has(said, "'berd'");
  expect_has(said,
             "albert, bart, bert, camembert, deberta-v2, distilbert, electra, gemma2, gemma3_text, "
             "gpt2, granite, llama, mistral, modernbert, mpnet, olmo2, phi3, qwen2, qwen3, "
             "roberta, smollm3, t5, xlm-roberta");
  expect_has(said, ". Did you mean 'bert'? Or add a class by register_model()");
  folder.write("config.json", R"({"model_type": "qwen3_moe"})");
  expect_has(message_of<ConfigError>([&] { (void)AutoModel::from_pretrained(where()); }),
             "For the same work take a model of type 'qwen3'.");
  folder.write("config.json", R"({"model_type": "gemma3"})");
  expect_has(message_of<ConfigError>([&] { (void)AutoModel::from_pretrained(where()); }),
             "Its text alone is a 'gemma3_text'");
  folder.write("config.json", "{}");
  (void)message_of<ConfigError>([&] { (void)AutoModel::from_pretrained(where()); });
}

TEST_F(FromPretrained, RefusesTasksThatAModelDoesNotHave) {
  expect_has(message_of<ConfigError>([&] { (void)AutoModelForCausalLM::from_pretrained(where()); }),
             "gemma2, gemma3_text, gpt2, granite, llama, mistral, olmo2, phi3, qwen2, qwen3, "
             "smollm3. 'bert' has AutoModel, AutoModelForSequenceClassification, ");
}

TEST_F(FromPretrained, RefusesWeightsOfAnotherModel) {
  save_weights({{"something.else", at::zeros({2})}}, folder.path(), 1 << 20);
  expect_has(message_of<CheckpointError>([&] { (void)AutoModel::from_pretrained(where()); }),
             "something.else");
}

TEST_F(FromPretrained, RefusesOrMakesAnewWhatHasAnotherShape) {
  const auto three =
      AutoModelForSequenceClassification::from_pretrained(where(), {.num_labels = 3});
  const TemporaryFolder out;
  three->save_pretrained(out.path());
  const auto five = [&](bool ignore) {
    return AutoModelForSequenceClassification::from_pretrained(
        out.path().string(), {.num_labels = 5, .ignore_mismatched_sizes = ignore});
  };
  const auto said = message_of<CheckpointError>([&] { (void)five(false); });
  expect_has(said, "classifier.weight");
  expect_has(said, "[3, 16] in the files, [5, 16] in the model");
  expect_has(said, "ignore_mismatched_sizes");
  EXPECT_EQ(five(true)->config().num_labels(), 5);
  // With the head that the files have, all is theirs.
  expect_equal(
      parameters_of(three),
      parameters_of(AutoModelForSequenceClassification::from_pretrained(out.path().string())));
}

TEST_F(FromPretrained, ChecksLabels) {
  expect_has(message_of<UsageError>([&] {
               (void)AutoModelForSequenceClassification::from_pretrained(
                   where(), {.num_labels = 3, .id2label = {"a", "b"}});
             }),
             "num_labels is 3");
  const auto named =
      AutoModelForSequenceClassification::from_pretrained(where(), {.id2label = {"a", "b", "c"}});
  EXPECT_EQ(named->config().labels().back(), "c");
}

TEST_F(FromPretrained, RefusesConfigurationsThatContradictThemselves) {
  auto config = testing::small_bert_config();
  config.set("num_attention_heads", std::int64_t{3});
  expect_has(message_of<ConfigError>([&] { (void)AutoModel::from_config(config); }),
             "'hidden_size' is 16");
  config.set("num_attention_heads", std::int64_t{2});
  config.set("hidden_act", std::string("golu"));
  expect_has(message_of<ConfigError>([&] { (void)AutoModel::from_config(config); }), "golu");
}

TEST_F(FromPretrained, SaysHowToGetAModelThatIsNotThere) {
  const testing::ScopedEnv cache("HF_HUB_CACHE", (folder.path() / "cache").c_str());
  const testing::ScopedEnv offline("HF_HUB_OFFLINE", "1");
  const auto said = message_of<FileError>([&] { (void)AutoModel::from_pretrained("some/model"); });
  expect_has(said, "some/model");
}

TEST_F(FromPretrained, OtherRanksThanTheFirstWaitForItsWeights) {
  const testing::ScopedEnv fsdp("ACCELERATE_USE_FSDP", "true"),
      efficient("FSDP_CPU_RAM_EFFICIENT_LOADING", "true");
  const auto is_empty = [&] {
    return AutoModel::from_pretrained(where())->parameters().front().is_meta();
  };
  {
    const testing::ScopedEnv rank("RANK", "1");
    EXPECT_TRUE(is_empty());
    const testing::ScopedEnv unasked("FSDP_CPU_RAM_EFFICIENT_LOADING", nullptr);
    EXPECT_TRUE(is_empty());  // As the launcher's default is, which it does not export.
    const testing::ScopedEnv refused("FSDP_CPU_RAM_EFFICIENT_LOADING", "false");
    EXPECT_FALSE(is_empty());
  }
  const testing::ScopedEnv rank("RANK", "0");
  EXPECT_FALSE(AutoModel::from_pretrained(where())->parameters().front().is_meta());
}

class Own : public PreTrainedModel {
 public:
  explicit Own(const PretrainedConfig& config) : PreTrainedModel("Own", config, "own") {
    weight = register_parameter("weight", at::zeros({config.get<std::int64_t>("size", 2)}));
    post_init();
  }
  ModelOutput forward(const Inputs& inputs) override { return {.logits = weight * inputs["x"]}; }
  std::vector<std::string> no_split_modules() const override { return {"Own"}; }
  at::Tensor weight;
};

TEST(RegisterModel, MakesTheUsersOwn) {
  const TemporaryFolder folder;
  folder.write("config.json", R"({"model_type": "own", "size": 3})");
  save_weights({{"weight", at::arange(3).to(at::kFloat)}}, folder.path(), 1 << 20);
  register_model("own", Task::base,
                 [](const PretrainedConfig& config) { return std::make_shared<Own>(config); });
  const auto model = AutoModel::from_pretrained(folder.path().string());
  EXPECT_TRUE(model->forward(Inputs{{"x", at::full({}, 2.0F)}}).logits.equal(at::arange(3) * 2.0F));
  expect_has(message_of<UsageError>([&] { model->resize_token_embeddings(4); }), "Own");
}

TEST(LoadReport, PutsLayersInOneLine) {
  detail::LoadReport report;
  for (int i = 0; i < 12; ++i)
    report.lines.push_back({"layer." + std::to_string(i) + ".weight", "not in the files"});
  report.lines.push_back({"head.bias", "not in the files"});
  EXPECT_EQ(report.table(),
            "\n  layer.{0…11}.weight  not in the files\n  head.bias              not in the files");
}

}  // namespace
}  // namespace accelerate
