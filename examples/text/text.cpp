// Shows what a tokenizer makes of a line: its pieces as a table, then the text that its ids decode
// to. Needs no LibTorch.
//
// usage: text NAME_OR_FOLDER [LINE]    Without LINE: every line of standard input.
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "accelerate/base/run_main.h"
#include "accelerate/base/terminal/table.h"
#include "accelerate/base/terminal/terminal_screen.h"
#include "accelerate/transformers/tokenizers/pretrained/pre_trained_tokenizer.h"

namespace {

using accelerate::Encoding;

// Offsets count code points, as in Python, but a std::string counts bytes.
std::string covered(const std::string& line, const accelerate::Offsets& offsets) {
  std::string text;
  std::uint32_t count = 0;
  for (const char byte : line) {
    if ((static_cast<unsigned char>(byte) & 0xC0) != 0x80) ++count;
    if (count > offsets.begin && count <= offsets.end) text += byte;
  }
  return text;
}

std::string range(const accelerate::Offsets& offsets) {
  return std::to_string(offsets.begin) + "-" + std::to_string(offsets.end);
}

accelerate::Table table_of(const Encoding& encoding, const std::string& line) {
  using enum accelerate::Align;
  accelerate::Table table(
      {{"", right}, {"token"}, {"id", right}, {"offsets"}, {"word", right}, {"covers"}});
  for (std::size_t i = 0; i < encoding.size(); ++i) {
    const bool is_special = encoding.special_tokens_mask[i] != 0;
    const bool has_word = encoding.words[i] != accelerate::kNone;
    table.add_row({std::to_string(i), encoding.tokens[i], std::to_string(encoding.ids[i]),
                   is_special ? "special" : range(encoding.offsets[i]),
                   has_word ? std::to_string(encoding.words[i]) : "",
                   is_special ? "" : "'" + covered(line, encoding.offsets[i]) + "'"});
  }
  return table;
}

void show(const accelerate::PreTrainedTokenizer& tokenizer, const std::string& line) {
  const auto batch = tokenizer(line, {.strict_utf8 = true});
  const auto& ids = batch.input_ids()[0];
  std::cout << table_of(batch.encodings()[0], line).box(accelerate::locale_is_utf8())
            << "decoded: " << tokenizer.decode(ids)
            << "\nwithout special tokens: " << tokenizer.decode(ids, /*skip_special_tokens=*/true)
            << "\n";
}

void run(int argc, char** argv) {
  if (argc != 2 && argc != 3) throw std::invalid_argument("usage: text NAME_OR_FOLDER [LINE]");
  const auto tokenizer = accelerate::AutoTokenizer::from_pretrained(argv[1]);
  if (argc == 3) return show(tokenizer, argv[2]);
  for (std::string line; std::getline(std::cin, line);) show(tokenizer, line);
}

}  // namespace

int main(int argc, char** argv) {
  return accelerate::run_main([&] { run(argc, argv); });
}
