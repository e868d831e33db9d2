#include "accelerate/transformers/tokenizers/pretrained/tokenizer_class.h"

#include <algorithm>
#include <utility>

namespace accelerate::detail {
namespace {

using Tokens = std::array<std::string_view, kRoleCount>;

constexpr Tokens kBert{"", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
constexpr Tokens kRoberta{"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"};
constexpr std::string_view kEnd = "<|endoftext|>";

constexpr std::array<TokenizerClass, 31> kClasses{{
    {"TokenizersBackend", Recipe::none, {}},
    {"BertTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"DistilBertTokenizer", Recipe::bert, kBert},
    {"ElectraTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"MobileBertTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"LayoutLMTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"ConvBertTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"SqueezeBertTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"LxmertTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"MPNetTokenizer", Recipe::mpnet, {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}},
    {"FunnelTokenizer",
     Recipe::funnel,
     {"<s>", "</s>", "<unk>", "<sep>", "<pad>", "<cls>", "<mask>"}},
    {"GPT2Tokenizer", Recipe::gpt2, {kEnd, kEnd, kEnd}},
    {"CodeGenTokenizer", Recipe::codegen, {kEnd, kEnd, kEnd}},
    {"GPTNeoXTokenizer", Recipe::gpt_neox, {kEnd, kEnd, kEnd, "", "<|padding|>"}},
    {"RobertaTokenizer", Recipe::roberta, kRoberta},
    {"BartTokenizer", Recipe::roberta, kRoberta},
    {"LongformerTokenizer", Recipe::roberta, kRoberta},
    {"LEDTokenizer", Recipe::roberta, kRoberta},
    {"MvpTokenizer", Recipe::roberta, kRoberta},
    {"BlenderbotTokenizer", Recipe::blenderbot, kRoberta},
    {"DebertaTokenizer",
     Recipe::deberta,
     {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
     /*has_token_type_ids=*/true},
    {"Qwen2Tokenizer", Recipe::qwen2, {"", kEnd, kEnd, "", kEnd}},
    {"CLIPTokenizer", Recipe::clip, {"<|startoftext|>", kEnd, kEnd, "", kEnd}},
    {"OpenAIGPTTokenizer", Recipe::openai_gpt, {"", "", "<unk>"}},
    {"HerbertTokenizer", Recipe::herbert, {"", "", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
    {"LlamaTokenizer", Recipe::llama, {"<s>", "</s>", "<unk>"}, false, Side::left},
    {"T5Tokenizer", Recipe::t5, {"", "</s>", "<unk>", "", "<pad>"}},
    {"XLMRobertaTokenizer", Recipe::xlm_roberta, kRoberta},
    {"AlbertTokenizer",
     Recipe::albert,
     {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}},
    {"DebertaV2Tokenizer",
     Recipe::deberta_v2,
     {"[CLS]", "[SEP]", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"},
     /*has_token_type_ids=*/true},
    // Not built from older files here, but these tokens are needed with tokenizer.json too.
    {"GemmaTokenizer",
     Recipe::none,
     {"<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"},
     false,
     Side::left},
}};

// Source: TOKENIZER_MAPPING_NAMES of transformers 5.23.
constexpr std::array<std::pair<std::string_view, std::string_view>, 86> kOfModels{{
    {"align", "BertTokenizer"},
    {"bark", "BertTokenizer"},
    {"bert", "BertTokenizer"},
    {"blip", "BertTokenizer"},
    {"bros", "BertTokenizer"},
    {"chinese_clip", "BertTokenizer"},
    {"convbert", "BertTokenizer"},
    {"distilbert", "BertTokenizer"},
    {"electra", "BertTokenizer"},
    {"ernie", "BertTokenizer"},
    {"flava", "BertTokenizer"},
    {"git", "BertTokenizer"},
    {"grounding-dino", "BertTokenizer"},
    {"layoutlm", "BertTokenizer"},
    {"megatron-bert", "BertTokenizer"},
    {"mm-grounding-dino", "BertTokenizer"},
    {"nezha", "BertTokenizer"},
    {"nomic_bert", "BertTokenizer"},
    {"qdqbert", "BertTokenizer"},
    {"realm", "BertTokenizer"},
    {"retribert", "BertTokenizer"},
    {"squeezebert", "BertTokenizer"},
    {"tvp", "BertTokenizer"},
    {"vilt", "BertTokenizer"},
    {"visual_bert", "BertTokenizer"},
    {"bart", "RobertaTokenizer"},
    {"bridgetower", "RobertaTokenizer"},
    {"clap", "RobertaTokenizer"},
    {"data2vec-text", "RobertaTokenizer"},
    {"ibert", "RobertaTokenizer"},
    {"lilt", "RobertaTokenizer"},
    {"longformer", "RobertaTokenizer"},
    {"mega", "RobertaTokenizer"},
    {"mra", "RobertaTokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"roberta-prelayernorm", "RobertaTokenizer"},
    {"codegen", "GPT2Tokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"gpt_neo", "GPT2Tokenizer"},
    {"gptj", "GPT2Tokenizer"},
    {"opt", "GPT2Tokenizer"},
    {"phi", "GPT2Tokenizer"},
    {"starcoder2", "GPT2Tokenizer"},
    {"blip-2", "GPT2Tokenizer"},
    {"instructblip", "GPT2Tokenizer"},
    {"jais2", "GPT2Tokenizer"},
    {"falcon_mamba", "GPTNeoXTokenizer"},
    {"gpt_neox", "GPTNeoXTokenizer"},
    {"mamba", "GPTNeoXTokenizer"},
    {"mamba2", "GPTNeoXTokenizer"},
    {"mpt", "GPTNeoXTokenizer"},
    {"olmo", "GPTNeoXTokenizer"},
    {"olmoe", "GPTNeoXTokenizer"},
    {"rwkv", "GPTNeoXTokenizer"},
    {"xlstm", "GPTNeoXTokenizer"},
    {"clip", "CLIPTokenizer"},
    {"clipseg", "CLIPTokenizer"},
    {"groupvit", "CLIPTokenizer"},
    {"omdet-turbo", "CLIPTokenizer"},
    {"oneformer", "CLIPTokenizer"},
    {"owlv2", "CLIPTokenizer"},
    {"owlvit", "CLIPTokenizer"},
    {"sam3", "CLIPTokenizer"},
    {"xclip", "CLIPTokenizer"},
    {"aimv2", "CLIPTokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"qwen2_moe", "Qwen2Tokenizer"},
    {"qwen3", "Qwen2Tokenizer"},
    {"qwen3_moe", "Qwen2Tokenizer"},
    {"qwen3_next", "Qwen2Tokenizer"},
    {"qwen2_vl", "Qwen2Tokenizer"},
    {"qwen2_5_vl", "Qwen2Tokenizer"},
    {"qwen3_vl", "Qwen2Tokenizer"},
    {"blenderbot", "BlenderbotTokenizer"},
    {"deberta", "DebertaTokenizer"},
    {"deberta-v2", "DebertaV2Tokenizer"},
    {"funnel", "FunnelTokenizer"},
    {"herbert", "HerbertTokenizer"},
    {"mpnet", "MPNetTokenizer"},
    {"openai-gpt", "OpenAIGPTTokenizer"},
    {"llama", "LlamaTokenizer"},
    {"t5", "T5Tokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
    {"albert", "AlbertTokenizer"},
    {"gemma", "GemmaTokenizer"},
    {"mobilebert", "MobileBertTokenizer"},
}};

// Classes of SentencePiece models that are not built here, and the `model_type` they belong to.
constexpr std::array<std::pair<std::string_view, std::string_view>, 30> kOtherRecipes{{
    {"BarthezTokenizer", ""},
    {"BartphoTokenizer", ""},
    {"BertGenerationTokenizer", "bert-generation"},
    {"BigBirdTokenizer", "big_bird"},
    {"CamembertTokenizer", "camembert"},
    {"CodeLlamaTokenizer", ""},
    {"CpmTokenizer", ""},
    {"FNetTokenizer", "fnet"},
    {"GPTSw3Tokenizer", ""},
    {"LasrTokenizer", ""},
    {"LayoutXLMTokenizer", ""},
    {"M2M100Tokenizer", "m2m_100"},
    {"MarianTokenizer", "marian"},
    {"MBartTokenizer", "mbart"},
    {"MBart50Tokenizer", ""},
    {"MLukeTokenizer", ""},
    {"NllbTokenizer", "nllb-moe"},
    {"PegasusTokenizer", "pegasus"},
    {"PLBartTokenizer", "plbart"},
    {"ReformerTokenizer", "reformer"},
    {"RemBertTokenizer", "rembert"},
    {"SeamlessM4TTokenizer", "seamless_m4t"},
    {"SiglipTokenizer", "siglip"},
    {"Siglip2Tokenizer", "siglip2"},
    {"Speech2TextTokenizer", "speech_to_text"},
    {"SpeechT5Tokenizer", "speecht5"},
    {"UdopTokenizer", "udop"},
    {"VideoPrismTokenizer", ""},
    {"XGLMTokenizer", "xglm"},
    {"XLNetTokenizer", "xlnet"},
}};

}  // namespace

const TokenizerClass& tokenizer_class(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const auto found = std::ranges::find(kClasses, name, &TokenizerClass::name);
  return found == kClasses.end() ? kClasses[0] : *found;
}

std::string_view class_with_other_recipe(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const auto found = std::ranges::find_if(kOtherRecipes, [&](const auto& pair) {
    return pair.first == name || (!name.empty() && pair.second == name);
  });
  return found == kOtherRecipes.end() ? "" : found->first;
}

const TokenizerClass& tokenizer_class_of_model(std::string_view model_type) {
  const auto found =
      std::ranges::find(kOfModels, model_type, [](const auto& pair) { return pair.first; });
  return tokenizer_class(found == kOfModels.end() ? "" : found->second);
}

}  // namespace accelerate::detail
