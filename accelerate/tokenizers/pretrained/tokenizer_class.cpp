#include "accelerate/tokenizers/pretrained/tokenizer_class.h"

#include <algorithm>
#include <utility>

namespace accelerate::detail {
namespace {

using Tokens = std::array<std::string_view, kRoleCount>;

constexpr Tokens kBert{"", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"};
constexpr Tokens kRoberta{"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"};
constexpr std::string_view kEnd = "<|endoftext|>";

constexpr std::array<TokenizerClass, 16> kClasses{{
    {"TokenizersBackend", Recipe::none, {}},
    {"BertTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"DistilBertTokenizer", Recipe::bert, kBert},
    {"ElectraTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"MobileBertTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"LayoutLMTokenizer", Recipe::bert, kBert, /*has_token_type_ids=*/true},
    {"GPT2Tokenizer", Recipe::gpt2, {kEnd, kEnd, kEnd}},
    {"RobertaTokenizer", Recipe::roberta, kRoberta},
    {"BartTokenizer", Recipe::roberta, kRoberta},
    {"LongformerTokenizer", Recipe::roberta, kRoberta},
    {"Qwen2Tokenizer", Recipe::qwen2, {"", kEnd, kEnd, "", kEnd}},
    {"LlamaTokenizer", Recipe::llama, {"<s>", "</s>", "<unk>"}, false, Side::left},
    {"T5Tokenizer", Recipe::t5, {"", "</s>", "<unk>", "", "<pad>"}},
    {"XLMRobertaTokenizer", Recipe::xlm_roberta, kRoberta},
    {"AlbertTokenizer",
     Recipe::albert,
     {"[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]"}},
    // Not built from older files here, but these tokens are needed with tokenizer.json too.
    {"GemmaTokenizer",
     Recipe::none,
     {"<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"},
     false,
     Side::left},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kOfModels{{
    {"bert", "BertTokenizer"},
    {"distilbert", "DistilBertTokenizer"},
    {"electra", "ElectraTokenizer"},
    {"mobilebert", "MobileBertTokenizer"},
    {"gpt2", "GPT2Tokenizer"},
    {"roberta", "RobertaTokenizer"},
    {"bart", "BartTokenizer"},
    {"qwen2", "Qwen2Tokenizer"},
    {"llama", "LlamaTokenizer"},
    {"t5", "T5Tokenizer"},
    {"xlm-roberta", "XLMRobertaTokenizer"},
    {"albert", "AlbertTokenizer"},
    {"gemma", "GemmaTokenizer"},
}};

}  // namespace

const TokenizerClass& tokenizer_class(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  const auto found = std::ranges::find(kClasses, name, &TokenizerClass::name);
  return found == kClasses.end() ? kClasses[0] : *found;
}

const TokenizerClass& tokenizer_class_of_model(std::string_view model_type) {
  const auto found =
      std::ranges::find(kOfModels, model_type, [](const auto& pair) { return pair.first; });
  return tokenizer_class(found == kOfModels.end() ? "" : found->second);
}

}  // namespace accelerate::detail
