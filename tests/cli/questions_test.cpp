// What counts as an answer, how a question is shown, and going back.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "accelerate/base/error.h"
#include "accelerate/base/utf8.h"
#include "cli/questions/form.h"
#include "cli/questions/lines.h"
#include "tests/support/errors.h"

namespace accelerate::cli {
namespace {

using testing::message_of;
using Kind = Question::Kind;

const Question kMenu{.kind = Kind::menu,
                     .text = "Which precision?",
                     .help = "Of autocast.",
                     .choices = {"no", "fp16", "bf16"},
                     .fallback = "no"};

TEST(Questions, TakeAChoiceByWordsOrPlace) {
  EXPECT_EQ(kMenu.answer_of(""), "no");
  EXPECT_EQ(kMenu.answer_of(" BF16 "), "bf16");
  EXPECT_EQ(kMenu.answer_of("2"), "fp16");
  for (const char* typed : {"0", "4", "-1", "bf17"}) {
    const auto message = message_of<ConfigError>([&] { (void)kMenu.answer_of(typed); });
    EXPECT_NE(message.find("is not one of the answers: no, fp16, bf16"), std::string::npos)
        << message;
  }
  const auto message = message_of<ConfigError>([&] { (void)kMenu.answer_of("bf17"); });
  EXPECT_NE(message.find("Did you mean 'bf16'"), std::string::npos) << message;
}

// In a menu of numbers a number is the choice.
TEST(Questions, TakeNumbersOfAMenuAsTheyAre) {
  const Question stage{
      .kind = Kind::menu, .text = "Which stage?", .choices = {"0", "1", "2", "3"}, .fallback = "2"};
  EXPECT_EQ(stage.answer_of("1"), "1");
  EXPECT_EQ(stage.answer_of("0"), "0");
  EXPECT_THROW((void)stage.answer_of("4"), ConfigError);
}

TEST(Questions, TakeYesAndNoInAnyCase) {
  const Question question{.kind = Kind::yes_no, .text = "Really?", .fallback = "yes"};
  EXPECT_EQ(question.answer_of(""), "yes");
  EXPECT_EQ(question.answer_of("No"), "no");
  EXPECT_EQ(question.answer_of("Y"), "yes");
  EXPECT_THROW((void)question.answer_of("maybe"), ConfigError);
}

TEST(Questions, NeedATextWhereNothingIsUsual) {
  const Question name{.text = "What is it called?"};
  EXPECT_THROW((void)name.answer_of("  "), ConfigError);
  EXPECT_EQ(name.answer_of(" a b "), "a b");
  const Question list{.text = "Which?", .may_be_empty = true};
  EXPECT_EQ(list.answer_of(""), "");
}

// The answers of a person, as lines.
std::string file_of(const std::string& lines, std::string* shown = nullptr) {
  std::istringstream in(lines);
  std::ostringstream out;
  Lines front_end(in, out);
  std::string yaml;
  yaml = converse(front_end).yaml;
  if (shown != nullptr) *shown = out.str();
  return yaml;
}

TEST(Conversations, GoBackAndOfferWhatWasAnswered) {
  const std::string straight = file_of("\nmulti-CPU\n\n\n\n\n\n4\n\n");
  EXPECT_NE(straight.find("num_processes: 4"), std::string::npos) << straight;
  // Another kind of machine first, and back from the question behind its own.
  EXPECT_EQ(file_of("\nmulti-GPU\n2\n1\n<\n<\n<\nmulti-CPU\n1\n\n\n\n\n4\n\n"), straight);
  // Nothing typed takes what was answered before.
  EXPECT_EQ(file_of("\nmulti-CPU\n\n\n\n\n\n4\n<\n\n\n"), straight);
  EXPECT_NE(file_of("\nmulti-CPU\n\nyes\n<\n\n\n\n\n4\n\n").find("debug: true"), std::string::npos);
  // Back from the first question: it is asked again.
  EXPECT_EQ(file_of("<\n\nmulti-CPU\n\n\n\n\n\n4\n\n"), straight);
}

TEST(Conversations, SayWhatIsWrongAndAskAgain) {
  std::string shown;
  const auto file = file_of("\nmulti-GPU\nzero\n0\n\n?\nno\n\n\n\n\n1\n2\n\n\n\n", &shown);
  for (const char* sentence :
       {"the answer is 'zero'; allowed is an integer of at least 1", "the answer is '0'",
        "It is the key 'debug' of the file", "choose 'No distributed training'"})
    EXPECT_NE(shown.find(sentence), std::string::npos) << sentence << "\n" << shown;
  EXPECT_NE(file.find("num_processes: 2"), std::string::npos) << file;
}

TEST(Conversations, SayAtOnceWhatCannotBeStarted) {
  std::string shown;
  (void)file_of("\nTPU\n\n\n\n\n", &shown);
  const auto note = shown.find("not on TPU cores");
  ASSERT_NE(note, std::string::npos) << shown;
  EXPECT_LT(note, shown.find("torch.compile"));
}

// Enter alone leads through a way of training, but for what nobody else can know.
TEST(Conversations, EndByEnterAlone) {
  const std::string enters(60, '\n');
  const auto sharded = file_of("\nmulti-CPU\n\n\n\n\nyes\n" + enters);
  EXPECT_NE(sharded.find("num_processes: 2"), std::string::npos) << sharded;
  EXPECT_NE(sharded.find("TRANSFORMER_BASED_WRAP"), std::string::npos) << sharded;
  EXPECT_EQ(sharded.find("layer_cls_to_wrap"), std::string::npos) << sharded;
  EXPECT_NE(file_of("\nmulti-CPU\n" + enters).find("num_processes: 2"), std::string::npos);
  EXPECT_NE(file_of("\nmulti-GPU\n" + enters).find("num_processes: 2"), std::string::npos);
  EXPECT_NE(file_of("\nmulti-GPU\n\n\n\nyes\nno\n\n\n\n\n\n\nyes\n" + enters).find("DEEPSPEED"),
            std::string::npos);
}

TEST(Conversations, EndWithTheInput) {
  const auto message = message_of<ConfigError>([] { (void)file_of("\nmulti-CPU\n"); });
  EXPECT_NE(message.find("nothing was written"), std::string::npos) << message;
}

TEST(FormPages, FitEverySize) {
  Question long_menu{.kind = Kind::menu,
                     .text = "Which of these many things, whose question does not fit into a line?",
                     .help = std::string(300, 'h') + " and some more words about it"};
  for (int i = 0; i < 40; ++i) long_menu.choices.push_back("choice number " + std::to_string(i));
  const Question typed{.text = "What is it called, in more words than a narrow screen has?"};
  const std::vector<Answered> before(30, {"A question that was asked before?", "its answer"});
  for (const Question& question : {long_menu, typed}) {
    for (std::size_t columns = 1; columns <= 90; columns += 7) {
      for (std::size_t rows = 1; rows <= 50; rows += 7) {
        for (const std::size_t selected : {0, 20, 39}) {
          FormState state{.notes = {"A note that is long enough to be broken into lines."},
                          .selected = question.choices.empty() ? 0 : selected,
                          .typed = "something längeres, was nicht passt",
                          .message = "It is wrong.",
                          .shows_help = true};
          const auto page = form_page(question, state, before, {columns, rows});
          EXPECT_LE(page.size(), rows);
          for (const auto& line : page) EXPECT_LE(display_width(line), columns) << line;
        }
      }
    }
  }
}

TEST(FormPages, ShowTheSelectedChoiceAndEarlierAnswers) {
  Question menu{.kind = Kind::menu, .text = "Which?"};
  for (int i = 0; i < 40; ++i) menu.choices.push_back("choice " + std::to_string(i));
  for (std::size_t selected = 0; selected < 40; ++selected) {
    const auto page = form_page(menu, {.selected = selected}, {{"Earlier?", "yes"}}, {40, 12});
    const std::string number = std::to_string(selected + 1);
    EXPECT_EQ(std::ranges::count(page, "> " + number + ". choice " + std::to_string(selected)), 1);
  }
  const auto page = form_page(kMenu, {}, {{"Earlier?", "yes"}}, {60, 20});
  EXPECT_EQ(page.front(), "Earlier? yes");
}

}  // namespace
}  // namespace accelerate::cli
